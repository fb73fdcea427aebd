import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { until } from '../relay.ts';
import { PASSWORD, type PostgresServer } from './server.ts';

const STREAMING_WITHIN_MS = 60_000;

/**
 * Makes a streaming standby of a running primary by an online base backup, starts it, and waits until it
 * streams.
 * @param port where it reaches the primary.
 */
export async function startStandby(
  primary: PostgresServer,
  name: string,
  { port, isSynchronous }: { port: number; isSynchronous: boolean },
): Promise<PostgresServer> {
  const superuser = await primary.superuser();
  try {
    await superuser.query(`select pg_backup_start('standby', true)`);
    const standby = await primary.copy(name, { isRunning: true });
    const { rows } = await superuser.query<{ label: string }>(
      'select labelfile as label from pg_backup_stop(false)',
    );
    await standby.write('backup_label', rows[0]?.label ?? '');
    await standby.write('standby.signal', '');
    await standby.configure(
      `primary_conninfo = 'host=127.0.0.1 port=${port} user=postgres password=${PASSWORD}'`,
    );
    await standby.start();
    const state = async (): Promise<string | undefined> =>
      (
        await superuser.query<{ state: string }>(
          `select state || ' ' || sync_state as state from pg_stat_replication`,
        )
      ).rows[0]?.state;
    await until(state, (is) => is === 'streaming async', 'the standby', STREAMING_WITHIN_MS);
    if (isSynchronous) {
      await superuser.query(`alter system set synchronous_standby_names = '*'`);
      await superuser.query('select pg_reload_conf()');
      await until(state, (is) => is === 'streaming sync', 'the standby', STREAMING_WITHIN_MS);
    }
    return standby;
  } finally {
    await superuser.end();
  }
}

/** Makes the standby the primary. @returns the last position of the log that it has. */
export async function promote(standby: PostgresServer): Promise<number> {
  const superuser = await standby.superuser('daybook');
  try {
    await superuser.query('select pg_promote(true, 60)');
    return await headOf(standby);
  } finally {
    await superuser.end();
  }
}

/** The last position of the log that a server has. */
export async function headOf(server: PostgresServer): Promise<number> {
  const superuser = await server.superuser('daybook');
  try {
    const { rows } = await superuser.query<{ head: string }>('select daybook.head(0::smallint) as head');
    return Number(rows[0]?.head);
  } finally {
    await superuser.end();
  }
}

/** The last positions of the batches above one, in order. */
export async function batchesAbove(server: PostgresServer, position: number): Promise<number[]> {
  const superuser = await server.superuser('daybook');
  try {
    const { rows } = await superuser.query<{ last: string }>(
      'select last_position as last from daybook.log_batch where last_position > $1 order by last_position',
      [position],
    );
    return rows.map(({ last }) => Number(last));
  } finally {
    await superuser.end();
  }
}

/** The size of the published checkpoint; 0 before the first. */
export async function publishedSize(directory: string): Promise<number> {
  const note = await readFile(path.join(directory, 'checkpoint'), 'utf8').catch(() => '\n0\n');
  return Number(note.split('\n')[1]);
}
