import { expect, it } from 'vitest';
import { readFolders } from './source.ts';

/**
 * A condition on a volatile function can't use an index: Postgres evaluates it for each row, so the query
 * walks the whole history. `statement_timestamp()` and `now()` are stable.
 */

const VOLATILE = /\b(?:clock_timestamp|timeofday|random|gen_random_uuid)\(\)/g;
/** What a value stands in: the nearest of these before it decides. */
const CLAUSE = new RegExp(
  String.raw`\b(?:where|having|on|using|filter|select|set|values|returning|default|constant|perform)\b` +
    String.raw`|:=|=>|sql(?:<\w+>)?\``,
  'gi',
);
const CONDITIONS = new Set(['where', 'having', 'on', 'using', 'filter']);
/** A piece of SQL that begins with the clock can end up in any clause. */
const isFragment = (clause: string, between: string): boolean =>
  clause.startsWith('sql') && between.trim() === '';

/** The lines on which a volatile function is part of a condition. */
function volatileConditions(path: string, text: string): string[] {
  return [...text.matchAll(VOLATILE)].flatMap(({ index }) => {
    const before = text.slice(0, index);
    const clause = [...before.matchAll(CLAUSE)].at(-1);
    if (clause === undefined) return [];
    const word = clause[0].toLowerCase();
    const between = before.slice(clause.index + word.length);
    if (!CONDITIONS.has(word) && !isFragment(word, between)) return [];
    return [`${path}:${before.split('\n').length} has a volatile function in a condition`];
  });
}

it('no condition of a query has a volatile clock, which would read the whole history', () => {
  const files = readFolders(['db', 'server', 'worker']).filter(
    ({ path }) => /\.(?:ts|sql)$/.test(path) && path !== 'db/schema/snapshot.sql',
  );
  expect(files.flatMap(({ path, text }) => volatileConditions(path, text))).toEqual([]);
});

it('finds one in each kind of query, and none in values', () => {
  const found = (text: string): number => volatileConditions('a.ts', text).length;
  expect(found("'select a from b where at > clock_timestamp() - $1'")).toBe(1);
  expect(found("'select a from b join c on c.at < clock_timestamp()'")).toBe(1);
  expect(found("'delete from b where at < date_trunc(1, clock_timestamp())'")).toBe(1);
  expect(found("q.where('at', '<', sql<Date>`clock_timestamp() - 1`)")).toBe(1);
  expect(found('const NOW = sql<Date>`clock_timestamp()`;')).toBe(1);
  expect(found("'select clock_timestamp() as now from b where at > $1'")).toBe(0);
  expect(found("'update b set at = clock_timestamp() where id = $1'")).toBe(0);
  expect(found('_now constant integer := clock_timestamp();')).toBe(0);
});
