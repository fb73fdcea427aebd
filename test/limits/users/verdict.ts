import type { Client } from 'pg';
import { pseudonymOf, openAccountKey } from '#db/attribution/keys.ts';
import { readAccountKeys } from '#db/attribution/store.ts';
import { readMasterKeys } from '#db/secrets/master-key.ts';
import { RESERVED, USED, type Record } from './clients.ts';
import type { Tenant } from './installation.ts';
import type { Population } from './population.ts';

/** Compares what clients saw with the log, and the tables of limits with the log. */

export type Verdict = {
  /** End users of the log. */
  users: number;
  accepted: number;
  abandoned: number;
  /** End users whose charges and reservations exceeded the quota at any position of the log. */
  overshoot: number;
  /** Calls that were rejected though enough units were free all the time. */
  falseRejections: number;
  /** Those that were rejected while units of a call that had just ended were not returned yet. */
  settlingRejections: number;
  /** Those with calls that never ended. */
  open: number;
  /** Those of whose calls clients and log differ. */
  differing: number;
  /** Whose allowance, and whose row of the projection, is not what the log says. */
  allowances: number;
  windows: number;
  /** Units that are still leased. */
  leased: number;
};

const CHUNK = 50_000;

/** Copies what clients saw into a table, by the pseudonyms of the log. */
async function writeRecord(
  client: Client,
  population: Population,
  tenants: readonly Tenant[],
  record: Record,
  masterKeyFile: string,
): Promise<void> {
  const master = readMasterKeys(masterKeyFile, (line) => new Error(line));
  if (master === null) throw new Error('the servers made no master key');
  const stored = await readAccountKeys(
    client,
    tenants.map(({ account }) => account),
  );
  const keys = new Map(
    stored.flatMap((each) =>
      'sealed' in each ? [[each.account, openAccountKey(master, each)] as const] : [],
    ),
  );
  const pseudonym = (user: number): string => {
    const key = keys.get(tenants[population.accountOf(user)]?.account as string);
    if (key === undefined) throw new Error('an account has no key of attribution');
    return pseudonymOf(key, 'end_user', population.nameOf(user));
  };
  await client.query(
    `create temp table seen (account text, end_user text, completed int, cut int, rejected int)`,
  );
  await client.query(
    'create temp table rejection (account text, end_user text, since timestamptz, until timestamptz)',
  );
  for (const some of chunksOf(record.rejections))
    await client.query(
      `insert into rejection select account, end_user, to_timestamp(since / 1e3), to_timestamp(until / 1e3)
        from unnest($1::text[], $2::text[], $3::float8[], $4::float8[])
          as r (account, end_user, since, until)`,
      [
        some.map(({ user }) => tenants[population.accountOf(user)]?.account),
        some.map(({ user }) => pseudonym(user)),
        some.map(({ sentMs }) => sentMs),
        some.map(({ endMs }) => endMs + RECORDED_MS),
      ],
    );
  for (const users of chunksOf(Array.from({ length: population.users }, (_, user) => user)))
    await client.query(
      'insert into seen select * from unnest($1::text[], $2::text[], $3::int[], $4::int[], $5::int[])',
      [
        users.map((user) => tenants[population.accountOf(user)]?.account),
        users.map(pseudonym),
        users.map((user) => record.completed[user]),
        users.map((user) => record.cut[user]),
        users.map((user) => record.rejected[user]),
      ],
    );
}

function chunksOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / CHUNK) }, (_, index) =>
    all.slice(index * CHUNK, (index + 1) * CHUNK),
  );
}

/** A call has its reservation at most this long before its acceptance is recorded. */
const RECORDED_MS = 1_000;
/**
 * After the end of a call its server returns the rest of its reservation, which takes a while with more work
 * than cores; where that server was killed, its peers do, after five seconds.
 */
const SETTLED_MS = 10_000;

/** The codes are those of db/events/events.ts. */
const LOG = `create temp table charge as
  select account, end_user, position, at, type, hold, units,
      sum(case type when 100 then hold else units - hold end)
        over (partition by account, end_user order by position) as balance
    from (
      select position, at, type, account, end_user,
          case type when 101 then input_tokens + output_tokens else hold_tokens end as units,
          case type when 101 then ${RESERVED} else hold_tokens end as hold
        from daybook.events() where type in (100, 101, 102) and end_user is not null
    ) e`;

const USERS = `create temp table charged as
  select account, end_user, count(*) filter (where type = 100)::int as accepted,
      count(*) filter (where type = 101)::int as settled,
      count(*) filter (where type = 102)::int as abandoned,
      sum(units) filter (where type = 101)::bigint as settled_units,
      coalesce(sum(units) filter (where type <> 100), 0)::bigint as charged, max(balance) as peak,
      max(hold) as hold
    from charge
    group by account, end_user`;

const FALSE_REJECTIONS = `select count(*)::int as count from rejection r
  where coalesce((
    select max(c.balance) from charge c
      where c.account = r.account and c.end_user = r.end_user and c.at <= r.until and c.at >= coalesce((
        select max(b.at) from charge b
          where b.account = r.account and b.end_user = r.end_user and b.at <= r.since
            and b.at <= r.until - make_interval(secs => $3 / 1e3)), '-infinity')
  ), 0) + $2 <= $1`;

export async function judge(options: {
  client: Client;
  population: Population;
  tenants: readonly Tenant[];
  record: Record;
  masterKeyFile: string;
  quota: number;
}): Promise<Verdict> {
  const { client, population, tenants, record, masterKeyFile, quota } = options;
  await client.query(`set statement_timeout = 0`);
  await client.query(`set work_mem = '256MB'`);
  await writeRecord(client, population, tenants, record, masterKeyFile);
  await client.query(LOG);
  await client.query('create index on charge (account, end_user, at)');
  await client.query(USERS);
  await client.query('analyze seen');
  await client.query('analyze charged');
  const { rows } = await client.query<Verdict>(
    `select count(*)::int as users, sum(c.accepted)::int as accepted, sum(c.abandoned)::int as abandoned,
        count(*) filter (where c.peak > $1)::int as overshoot,
        count(*) filter (where c.accepted <> c.settled + c.abandoned)::int as open,
        count(*) filter (where s.end_user is null or c.hold <> $2
          or coalesce(c.accepted, 0) not between s.completed and s.completed + s.cut
          or c.settled_units <> c.settled * $3)::int as differing,
        count(*) filter (where a.used + a.overdrawn is distinct from c.charged)::int as allowances,
        count(*) filter (where c.account is not null
          and (w.used, w.held) is distinct from (c.charged, 0))::int as windows,
        coalesce(sum(a.granted - a.returned - a.used), 0)::int as leased
      from seen s full join charged c using (account, end_user)
        left join daybook.allowance a
          on a.window_kind = 6 and a.subject = 'end_user/' || c.account || '/' || c.end_user
        left join projection.quota_window w
          on w.window_kind = 6 and w.subject = 'end_user/' || c.account || '/' || c.end_user`,
    [quota, RESERVED, USED],
  );
  const rejections = async (settledMs: number): Promise<number> => {
    const found = await client.query<{ count: number }>(FALSE_REJECTIONS, [quota, RESERVED, settledMs]);
    return found.rows[0]?.count ?? Number.NaN;
  };
  return {
    ...(rows[0] as Verdict),
    falseRejections: await rejections(SETTLED_MS),
    settlingRejections: await rejections(0),
  };
}
