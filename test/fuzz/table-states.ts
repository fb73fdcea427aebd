import type { Client } from 'pg';

/**
 * Digests of the tables that hold state which isn't in the log: what a change of it must not alter without an
 * event.
 */

/** Tables that requests may change without an event, each with the reason. */
const WITHOUT_EVENTS: Readonly<Record<string, string>> = {
  // The log itself, with what is derived from it in the same transaction.
  log: 'the log',
  log_batch: 'the log',
  log_node: 'the log',
  log_partition: 'the log',
  control_event: 'the log',
  stream_head: 'the log',
  checkpoint: 'the log',
  cosignature: 'the log',
  reading: 'the log: readings by other logins',
  // Projections: computed from the log.
  projection: 'projections',
  parked_event: 'projections',
  // Runtime state of servers and workers.
  instance: 'runtime',
  call_progress: 'runtime',
  allowance: 'runtime: limits',
  lease: 'runtime: limits',
  secret_use: 'runtime: times of use',
  job_status: 'runtime: worker',
  alert: 'runtime: worker',
  alert_delivery: 'runtime: worker',
  alert_attempt: 'runtime: worker',
  alert_look: 'runtime: worker',
  // Sign-in.
  session: 'sessions',
  attempt: 'throttle of sign-ins',
};

/** Columns that requests may change without an event, each with the reason. */
const COLUMNS_WITHOUT_EVENTS: Readonly<Record<string, readonly string[]>> = {
  // A two-factor setup that isn't confirmed yet, and the last code that was used.
  member: ['sealed_totp_begun', 'totp_step'],
};

/** The tables to compare, with SQL that digests all of them at once. */
export type TableStates = { read(): Promise<ReadonlyMap<string, string>> };

export async function openTableStates(client: Client): Promise<TableStates> {
  const { rows } = await client.query<{ name: string }>(
    `select relname as name from pg_class
     where relnamespace = 'daybook'::regnamespace and relkind = 'r' and not relispartition`,
  );
  const names = rows.map(({ name }) => name).filter((name) => !(name in WITHOUT_EVENTS));
  const text = names
    .map(
      (name) =>
        `select '${name}' as name, md5(coalesce(string_agg(line, chr(10) order by line), '')) as digest
         from (select ${lineOf(name)} as line from daybook."${name}" t)`,
    )
    .join('\nunion all\n');
  return {
    async read() {
      const states = await client.query<{ name: string; digest: string }>(text);
      return new Map(states.rows.map(({ name, digest }) => [name, digest]));
    },
  };
}

function lineOf(table: string): string {
  const columns = COLUMNS_WITHOUT_EVENTS[table];
  return columns === undefined
    ? 't::text'
    : `(to_jsonb(t)${columns.map((name) => ` - '${name}'`).join('')})::text`;
}

/** The tables that differ. */
export const changedTables = (
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): string[] => [...after].flatMap(([name, digest]) => (before.get(name) === digest ? [] : [name]));
