import { Client } from 'pg';
import { AUDIT_COMMANDS } from '#db/audit/commands/program.ts';
import { codeOfStore, runCommands } from '#db/command-line/run.ts';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import { clusterPaths, readPasswords } from '#db/postgres/embedded/cluster.ts';
import { readProjectionState } from '#db/projections/state.ts';
import { until } from '../support/relay.ts';
import type { Finding } from './verdict.ts';

const CAUGHT_UP_WITHIN_MS = 120_000;
const COMMAND_TIMEOUT_MS = 300_000;
/** A row that is about one call, changed by hand. */
const CHANGE = `
  update projection.request set model = model || '?'
    where request = (select request from projection.request order by request limit 1)
    returning request`;

/**
 * Jobs that move rows between partitions hold this lock. Without it an update that waits for a row finds it
 * gone from its partition, and changes nothing.
 */
const LOCK = "begin; select from daybook.projection where name = 'requests' for update";

type Audited = { code: number; text: string };
type Diff = Audited & { differences: number };

/**
 * The output of `daybook audit diff --json` or `verify --json`, run in this process.
 * @param env names the store.
 * @throws {Error} when it ends with another code than that of a verdict.
 */
export async function runAudit(env: Record<string, string>, command: 'diff' | 'verify'): Promise<Audited> {
  const program = { name: 'audit', description: '', groups: AUDIT_COMMANDS, codeOf: codeOfStore };
  let [text, complaint] = ['', ''];
  const code = await runCommands(program, [command, '--json'], {
    env: { ...process.env, ...env },
    out: (piece) => (text += piece),
    err: (piece) => (complaint += piece),
  });
  if (code !== 0 && code !== 1) throw new Error(`audit ${command} ended with ${code}: ${complaint}`);
  return { code, text };
}

async function auditDiff(dataDir: string): Promise<Diff> {
  const { code, text } = await runAudit({ DAYBOOK_DATA: dataDir, DATABASE_URL: '' }, 'diff');
  return { code, text, differences: (JSON.parse(text) as { differences: number }).differences };
}

/** Waits until the worker has projected the whole log. */
export async function projected(store: Store): Promise<void> {
  const auditor = new Client(store.config('auditor'));
  await auditor.connect();
  await until(
    () => readProjectionState(auditor),
    ({ position, head }) => position === head,
    'the projections',
    CAUGHT_UP_WITHIN_MS,
  );
  await auditor.end();
}

/**
 * P5, as an auditor would look: when the worker has caught up, the command finds no difference; and it
 * names a row that somebody changes by hand then.
 * @param store the embedded one below `dataDir`, still running.
 */
export async function checkDiff(
  store: Store,
  dataDir: string,
): Promise<{ differences: number; violations: Finding[] }> {
  await projected(store);
  const { differences, text } = await auditDiff(dataDir);
  const violations: Finding[] =
    differences === 0
      ? []
      : [
          {
            rule: 'P5',
            request: '',
            message: `audit diff finds ${differences} differences: ${text.slice(0, 2_000)}`,
          },
        ];

  const { host, port, database } = withTimeout(store.config('owner'), COMMAND_TIMEOUT_MS);
  const superuser = new Client({
    host,
    port,
    database,
    user: 'postgres',
    password: (await readPasswords(await clusterPaths(dataDir)))?.superuser,
  });
  await superuser.connect();
  await superuser.query(LOCK);
  const { rows } = await superuser.query<{ request: string }>(CHANGE);
  await superuser.query('commit');
  await superuser.end();
  const request = rows[0]?.request;
  if (request === undefined) throw new Error('there is no row of a call to change');
  const changed = await auditDiff(dataDir);
  if (changed.code === 1 && changed.text.includes(request)) return { differences, violations };
  return {
    differences,
    violations: [
      ...violations,
      {
        rule: 'P5',
        request,
        message: `audit diff misses a row that was changed by hand: ${changed.differences} differences`,
      },
    ],
  };
}
