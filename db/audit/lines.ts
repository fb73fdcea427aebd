import { compositeText, type LeafRow } from '#db/chain.ts';

/**
 * Rows of the log as Postgres writes a composite value, which is the very text that a leaf hash
 * covers. Half the work for Postgres that JSON is, and nothing to be put together again here. Pure.
 */

/** An event as it was read: the text of all its columns, newest format, and the columns where somebody has taken it apart. */
export type EventRow = { position: number; text: string; fields: LeafRow };

/** Where the columns that every verification looks at stand in a {@link LeafRow}. */
export const AT = { shard: 0, position: 1, at: 2, type: 3, instance: 4, stream: 24, version: 25, body: 26 } as const;

/** The columns of a composite value, null for null. What is no composite value comes out as some other row. */
export function fieldsOf(text: string): LeafRow {
  // Most rows have nothing that is quoted.
  if (!text.includes('"')) {
    const fields: (string | null)[] = text.slice(1, -1).split(',');
    for (let index = 0; index < fields.length; index++) if (fields[index] === '') fields[index] = null;
    return fields;
  }
  const fields: (string | null)[] = [];
  let field: string | null = null;
  let isQuoted = false;
  for (let at = 1; at < text.length - 1; at++) {
    const character = text[at] as string;
    if (isQuoted && (character === '\\' || (character === '"' && text[at + 1] === '"'))) field += text[++at] as string;
    else if (character === '"') {
      isQuoted = !isQuoted;
      field ??= '';
    } else if (character === ',' && !isQuoted) {
      fields.push(field);
      field = null;
    } else field = (field ?? '') + character;
  }
  fields.push(field);
  return fields;
}

/** Each format covers so many columns; see `db/chain.ts`. */
const COVERED: Readonly<Record<string, number>> = { 1: 27, 2: 34 };
const NOTHING_BEHIND_FORMAT_1 = `${','.repeat(34 - 27)})`;

/** The text that a leaf of this format covers; null for a format that is not known. */
export function leafText({ text, fields }: EventRow, format: string): string | null {
  const covered = COVERED[format];
  if (covered === undefined) return null;
  if (covered === fields.length) return text;
  if (text.endsWith(NOTHING_BEHIND_FORMAT_1)) return `${text.slice(0, -NOTHING_BEHIND_FORMAT_1.length)})`;
  return compositeText(fields.slice(0, covered));
}

/** Whether a row has a value in a column that its format does not cover. */
export function hasSurplus({ fields }: EventRow, format: string): boolean {
  const covered = COVERED[format];
  return covered !== undefined && fields.length > covered && fields.slice(covered).some((field) => field !== null);
}

/** The row of a composite value. */
export function rowOfText(text: string): EventRow {
  const fields = fieldsOf(text);
  return { position: Number(fields[AT.position] ?? Number.NaN), text, fields };
}

/** The row of columns. */
export const rowOfFields = (fields: LeafRow): EventRow => ({ position: Number(fields[AT.position] ?? Number.NaN), text: compositeText(fields), fields });
