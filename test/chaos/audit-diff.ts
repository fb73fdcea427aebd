import { execFile } from 'node:child_process';
import path from 'node:path';
import { Client } from 'pg';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import { clusterPaths, readPasswords } from '#db/postgres/embedded/cluster.ts';
import { readProjectionState } from '#db/projections/state.ts';
import { until } from '../support/relay.ts';
import type { Finding } from './verdict.ts';

const MAIN = path.join(import.meta.dirname, '../../db/audit/main.ts');
const CAUGHT_UP_WITHIN_MS = 120_000;
const COMMAND_TIMEOUT_MS = 300_000;
/** Of a million differences the first few are enough. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
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

type Audited = { code: number | null; text: string };
type Diff = Audited & { differences: number };

/**
 * The output of `daybook audit diff --json` or `verify --json` on the store below a data directory.
 * @throws {Error} when it ends with another code than that of a verdict.
 */
export function runAudit(dataDir: string, command: 'diff' | 'verify'): Promise<Audited> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, DAYBOOK_DATA: dataDir, DATABASE_URL: '' };
    const child = execFile(
      process.execPath,
      [MAIN, command, '--json'],
      { env, timeout: COMMAND_TIMEOUT_MS, maxBuffer: OUTPUT_BYTES_MAX },
      (_, stdout, stderr) => {
        if (child.exitCode !== 0 && child.exitCode !== 1)
          reject(new Error(`audit ${command} ended with ${child.exitCode}: ${stderr}`));
        else resolve({ code: child.exitCode, text: stdout });
      },
    );
  });
}

async function auditDiff(dataDir: string): Promise<Diff> {
  const { code, text } = await runAudit(dataDir, 'diff');
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
