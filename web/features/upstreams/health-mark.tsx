import { Icon } from '../../ui/icon.tsx';
import { Badge } from '../../ui/parts.tsx';
import type { Standing } from './health-words.ts';

/** The word about something's health, and beneath it what that means. */
export function HealthMark({ standing: { tone, icon, word, detail } }: { standing: Standing }) {
  return (
    <>
      <Badge tone={tone}>
        <Icon name={icon} size={12} />
        {word}
      </Badge>
      {detail !== null && <p className="mt-0.5 max-w-56 text-xs text-muted">{detail}</p>}
    </>
  );
}
