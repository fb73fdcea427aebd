import { join } from 'node:path';
import { Client } from 'pg';
import { registerInstance } from '#db/instances/instance.ts';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import { startEmbedded } from '#db/postgres/embedded/embedded.ts';
import { projectPage, startEpoch } from '#db/projections/project.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { migrate } from '#db/schema/migrate.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { INVOICE_GROUPS } from '#db/statement/invoices.ts';
import { readStatement } from '#db/statement/read.ts';
import type { Changes } from '#server/backtest/candidate.ts';
import { backtest } from '#server/backtest/run.ts';
import { appendBacklog, defineTenants } from './backlog.ts';
import type { Goal } from './goals.ts';
import { readUsage } from './machine/cpu.ts';
import { postmasterOf } from './machine/postmaster.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { figure, table } from './table.ts';

/** CPU time in s, of this process and of PostgreSQL, and the time that passed. */
type Cost = { nodeS: number; postgresS: number; wallS: number };

export type MonthReport = {
  calls: number;
  accounts: number;
  /** The rows that the statements add up: by day, key, model and kind, however many calls there are. */
  rows: number;
  one: Cost;
  all: Cost;
  /** Some statements computed from the log, and how many calls they have. */
  ofLog: Cost & { statements: number; calls: number; areEqual: boolean };
  backtests: Record<string, Cost>;
  goals: Goal[];
};

const ACCOUNTS = 1_000;
const STATEMENTS_OF_LOG = 20;
const STATEMENT_TIMEOUT_MS = 600_000;
const MONTH = { from: new Date('2026-10-01T00:00:00Z'), to: new Date('2026-11-01T00:00:00Z') };
const MONTH_CALLS = 100_000_000;

/** Events are spread over the month, as far as their batches allow. */
const SPREAD = ['daybook.log', 'daybook.log_batch'].map(
  (name) => `alter table ${name} disable trigger user;
    update ${name} set at = '2026-10-01T00:00:00Z'::timestamptz
      + interval '31 days' * (last_position::float8 / (daybook.head(0::smallint) + 1));
    alter table ${name} enable trigger user`,
);

const NOTHING: Changes = { plan: null, prices: [], models: new Map() };
const PRICE = { base: { input: 700_000, output: 9_000_000 }, rules: [] };
const CHANGES: Record<string, Changes> = {
  'other prices': {
    ...NOTHING,
    prices: ['gpt-4o', 'claude-sonnet'].map((pattern) => ({ pattern, terms: PRICE, source: 'bench' })),
  },
  'other terms': {
    ...NOTHING,
    plan: {
      scope: 'all',
      terms: {
        requests_per_minute: 1_000_000,
        quotas: [
          { meter: 'tokens', window: 'month', limit: 10 ** 12, enforcement: 'soft' },
          { meter: 'requests', window: 'day', per: 'end_user', limit: 1_000_000, enforcement: 'soft' },
        ],
      },
    },
  },
};

/** Measures statements and back-tests of a month whose length the settings say. */
export async function benchMonth(
  settings: Settings,
  { directory, signal }: Stage,
): Promise<MonthReport & { equal: { isEqual: boolean } }> {
  const dataDir = join(directory, 'month');
  const store = await startEmbedded({ dataDir, log: () => {} });
  try {
    await migrate(store);
    const postmaster = postmasterOf(dataDir);
    if (postmaster === null) throw new Error(`no Postgres runs in ${dataDir}`);
    const accounts = await fill(store, settings.events, signal);
    const client = await connect(store, 'relay');
    const rows = await client.query<{ count: string }>('select count(*) from projection.statement_day');
    const measure = async (work: () => Promise<unknown>): Promise<Cost> => {
      const before = { cpu: process.cpuUsage(), postgres: readUsage({ root: postmaster, except: [] }).cpuUs };
      const beganMs = performance.now();
      await work();
      const cpu = process.cpuUsage(before.cpu);
      return {
        nodeS: (cpu.user + cpu.system) / 1e6,
        postgresS: (readUsage({ root: postmaster, except: [] }).cpuUs - before.postgres) / 1e6,
        wallS: (performance.now() - beganMs) / 1_000,
      };
    };
    const read = async (account: string, fromLog: boolean) =>
      (await readStatement(client, { account, ...MONTH, group_by: INVOICE_GROUPS, fromLog })).statement;

    const one = await measure(() => read(accounts[0] as string, false));
    const all = await measure(async () => {
      for (const account of accounts) await read(account, false);
    });
    const compared = accounts.slice(0, STATEMENTS_OF_LOG);
    const ofLog = { statements: compared.length, calls: 0, areEqual: true };
    const digests: string[] = [];
    const logCost = await measure(async () => {
      for (const account of compared) {
        const statement = await read(account, true);
        ofLog.calls += statement.totals.requests;
        digests.push(digestOf(statement));
      }
    });
    for (const [index, account] of compared.entries())
      ofLog.areEqual &&= digestOf(await read(account, false)) === digests[index];
    const backtests: Record<string, Cost> = {};
    for (const [name, changes] of Object.entries(CHANGES))
      backtests[name] = await measure(() =>
        backtest(client, { changes, ...MONTH, archiveDir: undefined, signal }),
      );
    await client.end();
    const calls = Math.round(settings.events / 2);
    const measured = { one, all, ofLog: { ...logCost, ...ofLog }, backtests };
    return {
      ...measured,
      ...{ calls, accounts: accounts.length, rows: Number(rows.rows[0]?.count) },
      goals: goalsOf(measured, calls),
      equal: { isEqual: ofLog.areEqual },
    };
  } finally {
    await store.stop();
  }
}

/** Appends calls, spreads them over the month and projects them. @returns the accounts. */
async function fill(store: Store, events: number, signal: AbortSignal): Promise<string[]> {
  const writer = await connect(store, 'relay');
  const instance = await registerInstance(writer, 'bench-month');
  const tenants = await defineTenants(writer, instance, ACCOUNTS);
  await appendBacklog({ client: writer, instance, tenants, batchNo: 1 }, events, signal);
  const owner = await connect(store, 'owner');
  for (const statement of SPREAD) await owner.query(statement);
  const projector = await connect(store, 'worker');
  const epoch = await startEpoch(projector);
  for (;;) {
    signal.throwIfAborted();
    const page = await projectPage(projector, { projections: PROJECTIONS, epoch });
    if (page.kind !== 'projected') throw new Error(`unexpected page: ${page.kind}`);
    if (page.range.upTo === page.head) break;
  }
  await projector.query('analyze projection.statement_day, projection.request');
  await Promise.all([writer.end(), owner.end(), projector.end()]);
  return [...new Set(tenants.keys.map(({ account }) => account))];
}

async function connect(store: Store, role: 'owner' | 'relay' | 'worker'): Promise<Client> {
  const client = new Client(withTimeout(store.config(role), STATEMENT_TIMEOUT_MS));
  await client.connect();
  return client;
}

/** Of a month of 100 million calls. Statements add up as many rows as here; back-tests decide each call. */
function goalsOf(
  { one, all, backtests }: Pick<MonthReport, 'one' | 'all' | 'backtests'>,
  calls: number,
): Goal[] {
  const atMost = (name: string, measured: number, limit: number): Goal => ({
    ...{ name, measured, bound: 'at most', limit, unit: 's' },
  });
  return [
    atMost('statement of one account', one.wallS, 5),
    atMost('statements of all accounts', all.wallS, 60),
    ...Object.entries(backtests).map(([name, { wallS }]) =>
      atMost(`back-test with ${name}`, (wallS / calls) * MONTH_CALLS, 300),
    ),
  ];
}

export function renderMonth({ calls, accounts, rows, one, all, ofLog, backtests }: MonthReport): string {
  const row = (name: string, { nodeS, postgresS, wallS }: Cost, of: number): string[] => [
    name,
    ...[wallS, nodeS, postgresS].map(figure),
    figure((nodeS / of) * 1e6),
    figure((postgresS / of) * 1e6),
  ];
  return [
    '',
    `${calls} calls of ${accounts} accounts in ${rows} rows of sums`,
    table(
      ['', 'seconds', 'Node CPU s', 'PostgreSQL CPU s', 'Node us each', 'PostgreSQL us each'],
      [
        row('statement of one account', one, 1),
        row('statements of all accounts, each', all, accounts),
        row(`${ofLog.statements} statements of the log, each call`, ofLog, ofLog.calls),
        ...Object.entries(backtests).map(([name, cost]) =>
          row(`back-test with ${name}, each call`, cost, calls),
        ),
      ],
    ),
    `statements of sums and of the log are ${ofLog.areEqual ? 'equal' : 'NOT EQUAL'}`,
  ].join('\n');
}
