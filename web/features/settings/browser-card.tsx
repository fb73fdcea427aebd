import { setSingleKeys, useSingleKeys } from '../../lib/preferences.ts';
import { Checkbox } from '../../ui/field.tsx';
import { Card } from '../../ui/parts.tsx';

/** What is kept in this browser alone. */
export function BrowserCard() {
  const isOn = useSingleKeys();
  return (
    <Card title="This browser" className="lg:col-span-2">
      <Checkbox
        label="Single-key shortcuts"
        hint="Such as g k and j. Turn them off if you speak to your computer, or touch keys unawares. Ctrl K stays."
        checked={isOn}
        onChange={({ currentTarget }) => setSingleKeys(currentTarget.checked)}
      />
    </Card>
  );
}
