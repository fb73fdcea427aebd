import { setSingleKeys, useSingleKeys } from '../../lib/hooks/preferences.ts';
import { Checkbox } from '../../ui/form/field.tsx';
import { Card } from '../../ui/layout/parts.tsx';

/** Preferences stored in this browser. */
export function BrowserCard() {
  const isOn = useSingleKeys();
  return (
    <Card title="Preferences" className="lg:col-span-2">
      <Checkbox
        label="Single-key shortcuts"
        hint="Such as g k and j. Turn off if they conflict with dictation software. Ctrl K always works."
        checked={isOn}
        onChange={({ currentTarget }) => setSingleKeys(currentTarget.checked)}
      />
    </Card>
  );
}
