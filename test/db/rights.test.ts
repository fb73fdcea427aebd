import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';

/** The privileges of each role, as docs/database-roles.md lists them. */

const PAGE = path.join(import.meta.dirname, '../../docs/database-roles.md');

/** The rows of the page's tables whose first column is the name of an object, without the dashes. */
function documented(): string[] {
  return readFileSync(PAGE, 'utf8')
    .split('\n')
    .filter((line) => /^\| `(?:daybook|daybook_lock|projection)\./.test(line))
    .map((line) => line.replaceAll(/[|` ]+/g, ' ').trim());
}

/** The letters are PostgreSQL's own; an asterisk stands for some columns only. */
const GRANTED = `
  with object as (
    select n.nspname || '.' || c.relname as name, c.relowner as owner, c.relacl as acl, '' as part
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('daybook', 'daybook_lock') and c.relkind in ('r', 'p', 'S', 'v')
        and not c.relispartition
    union all
    select n.nspname || '.' || c.relname, c.relowner, a.attacl, '*'
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      where n.nspname in ('daybook', 'daybook_lock') and a.attacl is not null
    union all
    select 'daybook.' || proname || '()', proowner, proacl, '' from pg_proc
      where pronamespace = 'daybook'::regnamespace
  ), held as (
    select distinct o.name, a.grantee::regrole::text as role, part,
        case a.privilege_type when 'INSERT' then 'a' when 'SELECT' then 'r' when 'UPDATE' then 'w'
          when 'DELETE' then 'd' when 'USAGE' then 'U' when 'EXECUTE' then 'X'
          else a.privilege_type end as letter
      from object o, aclexplode(o.acl) a where a.grantee <> o.owner
  ), listed as (
    select name, role, string_agg(letter || part, '' order by letter collate "C", part) as letters
      from held group by name, role
  )
  select concat_ws(' ', name,
      coalesce(max(letters) filter (where role = 'daybook_relay'), '–'),
      coalesce(max(letters) filter (where role = 'daybook_worker'), '–'),
      coalesce(max(letters) filter (where role = 'daybook_auditor'), '–'),
      string_agg(role || ' ' || letters, ' ')
        filter (where role not in ('daybook_relay', 'daybook_worker', 'daybook_auditor'))) as line
    from listed group by name order by name collate "C"`;

/** Whether the roles have these privileges on every projection, whose tables belong to the worker. */
const PROJECTIONS = `
  select distinct concat_ws(' ', 'projection.*',
      case when has_table_privilege('daybook_relay', c.oid, 'select')
        and not has_table_privilege('daybook_relay', c.oid, 'insert, update, delete, truncate') then 'r' end,
      case when c.relowner = 'daybook_worker'::regrole then 'owner' end,
      case when has_table_privilege('daybook_auditor', c.oid, 'select')
        and not has_table_privilege('daybook_auditor', c.oid, 'insert, update, delete, truncate')
        then 'r' end) as line
    from pg_class c where c.relnamespace = 'projection'::regnamespace and c.relkind in ('r', 'p')`;

async function lines(database: TestDatabase, query: string): Promise<string[]> {
  const client = await database.superuser();
  try {
    const { rows } = await client.query<{ line: string }>(query);
    return rows.map(({ line }) => line);
  } finally {
    await client.end();
  }
}

test('each role has exactly the privileges that the docs list', async () => {
  await using database = await createDatabase();
  const granted = [...(await lines(database, GRANTED)), ...(await lines(database, PROJECTIONS))];
  expect(documented().toSorted()).toEqual(granted.toSorted());
});
