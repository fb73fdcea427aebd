/**
 * Sets or removes one value of a TOML file, line by line, so that comments and order stay. It edits values of
 * one line in tables with plain headers; the caller parses the result and rejects any other change. Pure.
 */

/** @param keys the table's names, then the member's. @param value undefined removes. */
export function setInToml(text: string, keys: readonly (string | number)[], value: unknown): string {
  const table = keys.slice(0, -1).join('.');
  const member = String(keys.at(-1));
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const lines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/);
  const { from, to } = linesOf(lines, table);
  // A whole table is removed only when it is empty.
  const own = value === undefined ? linesOf(lines, keys.join('.')) : { from: -1, to: -1 };
  if (own.from > 0) lines.splice(own.from - 1, 1);
  else setLine(lines, { from, to, table, member, value });
  return lines.length === 0 ? '' : `${lines.join('\n').trimEnd().replaceAll('\n', eol)}${eol}`;
}

type Place = { from: number; to: number; table: string; member: string; value: unknown };

function setLine(lines: string[], { from, to, table, member, value }: Place): void {
  const assignment = new RegExp(String.raw`^(\s*${member}\s*=\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^#\s]*)(.*)$`);
  const index =
    from === -1 ? -1 : lines.findIndex((line, at) => at >= from && at < to && assignment.test(line));
  if (value === undefined) {
    if (index !== -1) lines.splice(index, 1);
    return;
  }
  const text = JSON.stringify(value);
  if (index !== -1) {
    lines[index] = (lines[index] ?? '').replace(
      assignment,
      (_, start: string, _before, end: string) => `${start}${text}${end}`,
    );
    return;
  }
  const line = `${member} = ${text}`;
  if (from === -1) lines.push(...(lines.length === 0 ? [] : ['']), `[${table}]`, line);
  else lines.splice(endOfMembers(lines, from, to), 0, line, ...(isHeader(lines[from]) ? [''] : []));
}

/** The lines of a table, without its header; those before the first header for the root. */
function linesOf(lines: readonly string[], table: string): { from: number; to: number } {
  const header = table === '' ? -1 : lines.findIndex((line) => headerOf(line) === table);
  if (table !== '' && header === -1) return { from: -1, to: -1 };
  const next = lines.findIndex((line, at) => at > header && isHeader(line));
  return { from: header + 1, to: next === -1 ? lines.length : next };
}

const isHeader = (line: string | undefined): boolean => /^\s*\[/.test(line ?? '');
const headerOf = (line: string): string | null =>
  /^\s*\[\s*([\w.-]+)\s*\]\s*(?:#.*)?$/.exec(line)?.[1] ?? null;

/** Behind the last member of a table: comments after it belong to the next one. */
function endOfMembers(lines: readonly string[], from: number, to: number): number {
  for (let at = to; at > from; at -= 1) if (!/^\s*(?:#.*)?$/.test(lines[at - 1] ?? '')) return at;
  return from;
}
