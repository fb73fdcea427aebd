import type { Client } from 'pg';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { readControlEvents } from '#server/control/control-log.ts';

const SHOWN_MAX = 10;

/** Checks that this version knows every control event. Its servers reject calls that depend on others. */
export async function checkEvents(client: Client): Promise<Finding> {
  const { all } = (await readControlEvents(client)).unapplied;
  const check = 'events';
  if (all.length === 0) return { check, ok: true, detail: 'all are known to this version' };
  const shown = all
    .slice(0, SHOWN_MAX)
    .map(({ subject, position, type }) => `${subject} (type ${type} at position ${position})`);
  const more = all.length > SHOWN_MAX ? ` and ${all.length - SHOWN_MAX} more` : '';
  return {
    check,
    ok: false,
    detail:
      `a newer version has changed ${shown.join(', ')}${more}; servers of this version reject calls that ` +
      'depend on them (relay_outdated): run the newer version',
  };
}
