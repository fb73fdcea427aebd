import { Icon } from '../../ui/icon.tsx';
import { Badge } from '../../ui/layout/parts.tsx';
import type { HealthStatus } from './health-status.ts';

/** A health status with its explanation. */
export function HealthMark({ status: { tone, icon, word, detail } }: { status: HealthStatus }) {
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
