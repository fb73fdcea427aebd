import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { registerInstance } from '#db/instances/instance.ts';
import { type OutsideSession, watchOutsideSessions } from '#db/instances/outside-sessions.ts';
import { appendRequests } from '#db/log/append.ts';
import { readPage } from '#db/log/read.ts';
import { createAuditorLogin, dropAuditorLogin } from '#db/postgres/auditor-login.ts';
import type { Store } from '#db/postgres/connect.ts';
import { connectAs } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { migrate } from '#db/schema/migrate.ts';
import { takeSnapshot } from '#db/schema/snapshot.ts';
import { verifyChain } from '../support/audit/verify-chain.ts';
import { accepted, settled } from '../support/log/log-writer.ts';
import type { Random } from '../chaos/random.ts';
import { readTargets, statementFrom } from './sql-statements.ts';

/**
 * Random statements, locks and function calls by outside logins while calls are recorded: every call is
 * recorded, the log is intact and has no event but those of the calls and of readings, and the schema with
 * all privileges is unchanged.
 */

export type SqlReport = {
  statements: number;
  /** Statements that PostgreSQL accepted. */
  accepted: number;
  calls: number;
  longestCallMs: number;
  /** Sessions that were ended because they blocked calls. */
  ended: number;
  violations: string[];
};

/** An append that waits for longer than this counts as failed, on a busy machine too. */
const CALL_TIMEOUT_MS = 30_000;
const SESSIONS = 6;
/** For a statement that reads the log of hours. */
const INSPECT_TIMEOUT_MS = 10 * 60_000;

/** `npm run fuzz -- sql`: on a PostgreSQL of its own. */
export async function run(random: Random, { ms }: { ms: number }): Promise<SqlReport> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'daybook-fuzz-'));
  const store = await startEmbedded({ dataDir, log: () => undefined });
  try {
    await migrate(store);
    return await fuzzSql(store, random, ms);
  } finally {
    await store.stop();
    await rm(dataDir, { recursive: true });
  }
}

/** The same on a database that has the schema. */
export async function fuzzSql(store: Store, random: Random, ms: number): Promise<SqlReport> {
  const report: SqlReport = {
    statements: 0,
    accepted: 0,
    calls: 0,
    longestCallMs: 0,
    ended: 0,
    violations: [],
  };
  const untilMs = performance.now() + ms;
  const login = `fuzz_${random.below(1e9)}_${process.pid}`;
  const password = await createAuditorLogin(store, login);
  const owner = await connectAs(store, 'owner', INSPECT_TIMEOUT_MS);
  const before = await readDefinitions(owner);
  const targets = await readTargets(owner);
  const stopWatch = watchOutsideSessions({
    connect: () => connectAs(store, 'relay', CALL_TIMEOUT_MS),
    onSession: (session: OutsideSession) => {
      if (session.isEnded) report.ended++;
      else report.violations.push(`a session of ${session.login} can't be ended`);
    },
  });

  async function connectOutside(role: string): Promise<Client> {
    const client = new Client({ ...store.config('auditor'), user: login, password });
    client.on('error', () => undefined);
    await client.connect();
    await client.query(`set role ${role}; set lock_timeout = '5s'; set statement_timeout = '10s'`);
    return client;
  }

  async function intrude(role: string): Promise<void> {
    let client: Client | undefined;
    while (performance.now() < untilMs) {
      const statement = statementFrom(random, targets);
      try {
        client ??= await connectOutside(role);
        report.statements++;
        await client.query(statement);
        report.accepted++;
      } catch (error) {
        // Without a severity it is the connection that failed.
        const { severity } = error as { severity?: string };
        if (severity === 'ERROR') continue;
        await client?.end().catch(() => undefined);
        client = undefined;
      }
    }
    await client?.end().catch(() => undefined);
  }

  async function call(): Promise<void> {
    const client = await connectAs(store, 'relay', CALL_TIMEOUT_MS);
    try {
      const instance = await registerInstance(client, 'fuzz');
      while (performance.now() < untilMs) {
        const startMs = performance.now();
        const begun = accepted();
        await appendRequests(client, instance, report.calls * 2 + 1, [begun]);
        await appendRequests(client, instance, report.calls * 2 + 2, [settled(begun)]);
        report.calls++;
        report.longestCallMs = Math.max(report.longestCallMs, Math.round(performance.now() - startMs));
      }
    } catch (error) {
      report.violations.push(`call ${report.calls + 1} failed: ${(error as Error).message}`);
    } finally {
      await client.end();
    }
  }

  await Promise.all([
    call(),
    ...Array.from({ length: SESSIONS }, (_, index) => intrude(index % 3 === 0 ? 'none' : 'daybook_auditor')),
  ]);
  await stopWatch();
  await inspect(owner, { login, before, report });
  await owner.end();
  await dropAuditorLogin(store, login);
  return report;
}

async function inspect(
  owner: Client,
  { login, before, report }: { login: string; before: string[]; report: SqlReport },
): Promise<void> {
  await owner.query('select daybook.append_readings()');
  const damage = await verifyChain(owner);
  if (damage !== null) report.violations.push(`the log is damaged: ${JSON.stringify(damage)}`);
  const known = new Set(before);
  const changed = (await readDefinitions(owner)).filter((line) => !known.has(line));
  if (changed.length > 0) report.violations.push(`the schema has changed: ${changed[0]}`);
  let calls = 0;
  let page = await readPage(owner, 0);
  for (; page.length > 0; page = await readPage(owner, page.at(-1)?.position ?? 0)) {
    for (const { event } of page) {
      if (event.type === 'request.settled') calls++;
      const isExpected =
        event.type === 'request.accepted' ||
        event.type === 'request.settled' ||
        (event.type === 'log.read' && event.actor === `login/${login}`);
      if (!isExpected) report.violations.push(`an event of another: ${JSON.stringify(event)}`);
    }
  }
  if (calls !== report.calls) report.violations.push(`${report.calls} calls, and ${calls} in the log`);
}

/** The lines of the schema, without the rows, which come last. */
async function readDefinitions(owner: Client): Promise<string[]> {
  const [definitions = ''] = (await takeSnapshot(owner, 'fuzz')).split('\ninsert into ');
  return definitions.split('\n');
}
