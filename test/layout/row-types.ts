/**
 * Rows get their types from the schema: from Kysely's queries, which infer them, or by `Selectable`, `Cell`
 * and `Result` of the generated types. A type written by hand beside a query drifts when a column changes.
 */

/** SQL as text, run by pg itself. */
const TEXT_QUERY = /\bquery</g;
/** A whole statement for Kysely with a row type written by hand, and not the table of a function. */
const TYPED_STATEMENT = /\bsql<\s*([A-Z]\w*|[[{][^`]*)>`\s*(?:select|with|insert|update|delete)\b/g;
const GENERATED = /\b(?:Selectable|Cell|Result)<|\bFunctions\[/;

/** Where SQL stays text, and why; see CONTRIBUTING.md. */
export const TEXT_QUERIES: readonly (readonly [path: string, why: string])[] = [
  ['db/projections/requests.ts', 'a statement for a page: its count is of no column'],
  ['db/postgres/', 'roles, settings and databases, before there is a schema'],
  ['db/schema/', 'the schema itself: what the types are generated from'],
];

/** The lines of a file on which a query has a row type that is not derived from the schema. */
export function handWrittenRows(path: string, text: string): string[] {
  const at = (index: number): string => `${path}:${text.slice(0, index).split('\n').length}`;
  const untyped = TEXT_QUERIES.some(([place]) => path.startsWith(place))
    ? []
    : [...text.matchAll(TEXT_QUERY)]
        .filter(({ index, 0: found }) => !isDerived(text, argumentAt(text, index + found.length)))
        .map(({ index }) => `${at(index)} has a row type written by hand; build the query with Kysely`);
  const typed = [...text.matchAll(TYPED_STATEMENT)]
    .filter(([, type]) => !isDerived(text, type as string))
    .map(({ index }) => `${at(index)} has a row type written by hand; build the query, or type its columns`);
  return [...untyped, ...typed];
}

/** A type that names a generated type, itself or where this file declares it. */
function isDerived(text: string, type: string): boolean {
  if (GENERATED.test(type)) return true;
  const names = type.match(/\b[A-Z]\w*/g) ?? [];
  return names.some((name) =>
    GENERATED.test(new RegExp(`\\btype ${name} =(?:[^;{]*\\{[^}]*\\})?[^;]*`).exec(text)?.[0] ?? ''),
  );
}

/** A type argument, from behind its `<` to the `>` that closes it. */
function argumentAt(text: string, start: number): string {
  let depth = 1;
  let end = start;
  for (; depth > 0 && end < text.length; end++) {
    if (text[end] === '<') depth++;
    else if (text[end] === '>' && text[end - 1] !== '=') depth--;
  }
  return text.slice(start, end - 1);
}
