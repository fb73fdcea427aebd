import { median } from './median.ts';

/** A number with about three significant digits; a dash for null. */
export function figure(value: number | null): string {
  if (value === null) return '-';
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** The median of some values, with their least and greatest where there are several; a dash for none. */
export function spread(values: readonly (number | null)[]): string {
  const present = values.filter((value) => value !== null);
  if (present.length < 2) return figure(median(present));
  return `${figure(median(present))} (${figure(Math.min(...present))}–${figure(Math.max(...present))})`;
}

/** Lines of a table: the first column to the left, the others to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  return [head, ...rows]
    .map((row) =>
      widths
        .map((width, column) => pad(row[column] ?? '', width, column > 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function pad(text: string, width: number, toRight: boolean): string {
  return toRight ? text.padStart(width) : text.padEnd(width);
}
