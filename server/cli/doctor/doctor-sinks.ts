import type { Client } from 'pg';
import { SINK_BEHIND_MS } from '#db/alerts/sink-alerts.ts';
import { readSinks, RESTORED_FAULT, type SinkStatus } from '#db/spend/sink-status.ts';
import type { Finding } from '#server/cli/doctor/finding.ts';

/** Checks of each sink that it is delivered to, and that none waits for an administrator after a restore. */
export async function checkSinks(client: Client): Promise<Finding[]> {
  const sinks = await readSinks(client);
  if (sinks.length === 0) return [{ check: 'sinks', ok: true, detail: 'none configured' }];
  return sinks.map((sink) => ({ check: `sink ${sink.name}`, ...stateOf(sink) }));
}

function stateOf(sink: SinkStatus): Pick<Finding, 'ok' | 'detail'> {
  const { name, kind, paused_at, fault, failures, behind_ms, retry_at } = sink;
  const place = `${kind}, ${lagOf(sink)}`;
  if (paused_at !== null)
    return fault === RESTORED_FAULT
      ? {
          ok: false,
          detail:
            `paused since the database was restored: stop the original, then run ` +
            `daybook sink resume ${name}; ${place}`,
        }
      : { ok: true, detail: `paused since ${paused_at.toISOString()}; ${place}` };
  if (failures > 0) {
    const next = retry_at === null ? 'now' : `at ${retry_at.toISOString()}`;
    const last = `${failures} failed deliveries in a row, the last with ${fault ?? 'unknown'}`;
    return { ok: false, detail: `${last}; next attempt ${next}; ${place}` };
  }
  return { ok: behind_ms < SINK_BEHIND_MS, detail: `no failure; ${place}` };
}

function lagOf({ position, behind, behind_ms }: SinkStatus): string {
  if (behind === 0) return `at position ${position}, not behind`;
  const age = `${Math.round(behind_ms / 1_000)} s`;
  return `at position ${position}, ${behind} events behind, the oldest ${age} old`;
}
