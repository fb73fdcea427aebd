/**
 * A condition on a volatile function can't use an index: Postgres evaluates it for each row, so the query
 * walks the whole history. `statement_timestamp()` and `now()` are stable.
 * Kysely's `fn('clock_timestamp')` counts, too.
 */

const VOLATILE = /(?<!Math\.)\b(?:clock_timestamp|timeofday|random|gen_random_uuid)(?:\(\)|'\))/g;
/** What a value stands in: the nearest of these before it decides. */
const CLAUSE = new RegExp(
  String.raw`\b(?:where|having|on|using|filter|select|selectNoFrom|set|values|returning|default)\b` +
    String.raw`|\b(?:constant|perform)\b|:=|=>|sql(?:<\w+>)?\``,
  'gi',
);
const CONDITIONS = new Set(['where', 'having', 'on', 'using', 'filter']);
/** A piece of SQL that begins with the clock can end up in any clause. */
const isFragment = (clause: string, between: string): boolean =>
  clause.startsWith('sql') && between.trim() === '';

/** As far as it looks back for the clause. */
const LOOK_BACK = 2_000;

/** The lines on which a volatile function is part of a condition. */
export function volatileConditions(path: string, text: string): string[] {
  return [...text.matchAll(VOLATILE)].flatMap(({ index }) => {
    const before = text.slice(Math.max(0, index - LOOK_BACK), index);
    const clause = [...before.matchAll(CLAUSE)].at(-1);
    if (clause === undefined) return [];
    const word = clause[0].toLowerCase();
    const between = before.slice(clause.index + word.length);
    if (!CONDITIONS.has(word) && !isFragment(word, between)) return [];
    return [`${path}:${text.slice(0, index).split('\n').length} has a volatile function in a condition`];
  });
}
