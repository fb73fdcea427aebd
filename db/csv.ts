/** Comma-separated values (RFC 4180), safe against formula injection in spreadsheets. Pure. */

export type Cell = string | number | bigint | boolean | null | undefined;

/** The start of a text that a spreadsheet interprets as a formula, also after white space. */
const FORMULA = /^[\s]*[=+\-@\t\r]/;
const NEEDS_QUOTES = /[",\r\n]/;

/**
 * One line, with its line end. A text that a spreadsheet would evaluate as a formula is prefixed with an
 * apostrophe, which spreadsheets hide; null is an empty cell.
 */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(cellText).join(',')}\r\n`;
}

function cellText(cell: Cell): string {
  if (cell === null || cell === undefined) return '';
  if (typeof cell !== 'string') return String(cell);
  const text = FORMULA.test(cell) ? `'${cell}` : cell;
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
