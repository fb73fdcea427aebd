/** "The database system is starting up" answers our own probes. */
const ERROR = /\b(?:FATAL|PANIC|ERROR|error):(?!\s+the database system is )\s+(.*)/;
const MORE = /^(?:.*?\b(?:DETAIL|HINT)|initdb: (?:detail|hint)):\s+(.*)/;

/**
 * The last error in the output of one of Postgres' programs, with its details and hints; null without any.
 */
export function reasonIn(lines: readonly string[]): string | null {
  const at = lines.findLastIndex((line) => ERROR.test(line));
  if (at < 0) return lines.at(-1) || null;
  const more = lines.slice(at + 1).flatMap((line) => MORE.exec(line)?.[1] ?? []);
  return [ERROR.exec(lines[at] ?? '')?.[1] ?? '', ...more].map((part) => part.replace(/\.$/, '')).join('. ');
}
