/** Rows under a heading, each column as wide as its widest cell. */
export function showTable(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const table = [heading, ...rows];
  const widths = heading.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  return table
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
