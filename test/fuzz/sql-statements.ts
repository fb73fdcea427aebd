import type { Client } from 'pg';
import type { Random } from '../chaos/random.ts';

/** What statements can name. */
export type Targets = {
  tables: { name: string; oid: number; column: string }[];
  functions: { name: string; types: string[] }[];
};

export async function readTargets(owner: Client): Promise<Targets> {
  const { rows: tables } = await owner.query<Targets['tables'][number]>(
    `select format('%I.%I', nspname, relname) as name, c.oid::int4 as oid,
        coalesce((select attname from pg_attribute where attrelid = c.oid and attnum = 1), 'a') as column
      from pg_class c join pg_namespace n on n.oid = relnamespace
      where nspname in ('daybook', 'daybook_lock', 'daybook_migrations', 'projection')
        and relkind in ('r', 'p', 'S') order by 1`,
  );
  const { rows: functions } = await owner.query<Targets['functions'][number]>(
    `select p.oid::regproc::text as name, array(select t::regtype::text from unnest(proargtypes) t) as types
      from pg_proc p where pronamespace = 'daybook'::regnamespace order by 1`,
  );
  return { tables, functions };
}

const MODES = [
  'access share',
  'row share',
  'row exclusive',
  'share update exclusive',
  'share',
  'share row exclusive',
  'exclusive',
  'access exclusive',
];
const CHANNELS = ['daybook_log', 'daybook_control', 'daybook_projected', 'daybook_progress', 'other'];
const NUMBERS = ['0', '1', '-1', '2147483647', '9007199254740991', '-9223372036854775808'];
const TEXTS = [
  "''",
  "'x'",
  "'verify'",
  "'events'",
  "'member/AAAAAAAA'",
  "'requests'",
  `'x","type":"key.revoked'`,
  "repeat('x', 100000)",
];

/** A random statement. One in five begins, ends or marks a transaction, so that locks are held. */
export function statementFrom(random: Random, { tables, functions }: Targets): string {
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)] as T;
  if (random.below(5) === 0)
    return pick(['begin', 'begin', 'commit', 'rollback', 'savepoint s', 'rollback to s', 'set role none']);
  const { name, oid, column } = pick(tables);
  const id = random.below(1e6);
  const argument = (type: string): string => {
    if (random.below(6) === 0) return `null::${type}`;
    if (type.endsWith('[]')) return `array[${pick(['1', '100', "'1'"])}]::${type}`;
    if (/int|numeric/.test(type)) return `(${pick(NUMBERS)})::numeric::${type}`;
    if (type === 'text') return pick(TEXTS);
    return `null::${type}`;
  };
  const other = pick(functions);
  return pick([
    () => `lock table ${name} in ${pick(MODES)} mode${pick(['', ' nowait'])}`,
    () => `select nextval(${oid}::oid::regclass)`,
    () => `select pg_advisory_lock(${15 + random.below(20)}, ${random.below(3)})`,
    () => `select pg_advisory_xact_lock_shared(${random.below(40)})`,
    () => `prepare p${id} as select * from ${name} ${pick(['for update', 'for share', ''])}`,
    () => `prepare p${id} as ${pick([`insert into ${name} default values`, `delete from ${name}`])}`,
    () => `select * from ${name} limit 3 ${pick(['for update', 'for key share', '', ''])}`,
    () =>
      `select * from daybook.${other.name.replace('daybook.', '')}(${other.types.map(argument).join(', ')})`,
    () =>
      `select daybook.record_reading(${pick(TEXTS)}, ${pick(TEXTS)}, ${random.below(9)}, ${random.below(9)})`,
    () => `select pg_notify('${pick(CHANNELS)}', ${pick(["''", "'1'", "'-1'", "'9e9'", "'{'"])})`,
    () => `listen ${pick(CHANNELS)}`,
    () => `create rule r${id} as on ${pick(['insert', 'update', 'select'])} to ${name} do instead nothing`,
    () =>
      `create trigger t${id} before insert on ${name} for each row execute function daybook.refuse_change()`,
    () => `create temporary table t${id} (a int references ${name})`,
    () => `create temporary table t${id} (like ${name} including all)`,
    () => `create statistics s${id} on ${column}, a from ${name}`,
    () => `create policy p${id} on ${name}`,
    () => `create index on ${name} (${column})`,
    () => `comment on ${pick([`table ${name}`, `column ${name}.${column}`])} is 'x'`,
    () =>
      `alter table ${name} ${pick(['add a int', 'disable trigger all', 'set unlogged', 'owner to user'])}`,
    () => `${pick(['truncate', 'drop table', 'vacuum', 'analyze', 'cluster', 'reindex table'])} ${name}`,
    () => `${pick(['update', 'merge into'])} ${name} set ${column} = ${column}`,
    () => `grant all on ${name} to ${pick(['public', 'current_user'])}`,
    () => `copy ${name} to '/tmp/daybook-fuzz'`,
    () => `declare c${id} cursor with hold for select * from ${name}`,
    () => `set ${pick(['default_transaction_isolation = serializable', 'lock_timeout = 0', 'jit = off'])}`,
    () => `select ${pick(['pg_cancel_backend', 'pg_terminate_backend'])}(pid) from pg_stat_activity limit 3`,
    () => `select ${pick(['lo_create(0)', 'pg_sleep(0.05)', "pg_logical_emit_message(false, 'x', 'y')"])}`,
    () => `do $$ begin perform nextval(${oid}::oid::regclass); exception when others then perform 1; end $$`,
  ])();
}
