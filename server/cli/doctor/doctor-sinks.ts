import type { Client } from 'pg';
import { readSinks, RESTORED_FAULT, type SinkStatus } from '#db/spend/sink-status.ts';
import type { Finding } from '#server/cli/doctor/finding.ts';

const SHOWN_MAX = 10;

/** Checks that no sink fails, and none waits for an administrator after a restore. */
export async function checkSinks(client: Client): Promise<Finding> {
  const check = 'sinks';
  const sinks = await readSinks(client);
  const problems = sinks.flatMap((sink) => problemOf(sink) ?? []);
  if (problems.length === 0) {
    const paused = sinks.filter(({ paused_at }) => paused_at !== null).length;
    return { check, ok: true, detail: `${sinks.length} configured, ${paused} paused, none failing` };
  }
  const more = problems.length > SHOWN_MAX ? `; and ${problems.length - SHOWN_MAX} more` : '';
  return { check, ok: false, detail: `${problems.slice(0, SHOWN_MAX).join('; ')}${more}` };
}

function problemOf({ name, paused_at, fault, failures, behind }: SinkStatus): string | null {
  if (paused_at !== null)
    return fault === RESTORED_FAULT
      ? `${name} is paused since the database was restored: stop the original, then run ` +
          `daybook sink resume ${name}`
      : null;
  if (failures === 0) return null;
  return `${name} failed ${failures} times (${fault ?? 'unknown'}) and is ${behind} positions behind`;
}
