/** Comma-separated values as RFC 4180 has them, safe to be opened by a spreadsheet. Pure. */

export type Cell = string | number | boolean | null | undefined;

/** What makes a spreadsheet take a text for a formula, also behind a blank that it skips. */
const FORMULA = /^[\s]*[=+\-@\t\r]/;
const NEEDS_QUOTES = /[",\r\n]/;

/**
 * One line with its line end. A text that a spreadsheet would run as a formula gets an apostrophe
 * before it, which spreadsheets hide; null is an empty cell.
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
