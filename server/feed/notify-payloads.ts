/** Postgres refuses notifications of 8,000 bytes; what stands around the lines is within the rest. */
const LINES_BYTES_MAX = 7_800;

/** JSON texts, each short and in ASCII, joined by commas into as few parts as fit into a notification. */
export function packed(lines: readonly string[]): string[] {
  const parts: string[] = [];
  let part = '';
  for (const line of lines) {
    if (part !== '' && part.length + 1 + line.length > LINES_BYTES_MAX) {
      parts.push(part);
      part = '';
    }
    part = part === '' ? line : `${part},${line}`;
  }
  return part === '' ? parts : [...parts, part];
}
