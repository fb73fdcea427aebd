import type { ScannedObject } from '#server/relay/json.ts';

/**
 * A body with some members of its top-level object set anew, and all else as the client wrote it.
 * @param scanned what was found in it; a member that was not looked for counts as not there.
 * @param changes values by name, each as JSON. A member that is not there is added at the end.
 * @returns the very same bytes where nothing changes.
 */
export function spliceMembers(bytes: Buffer, { members, close, empty }: ScannedObject, changes: ReadonlyMap<string, string>): Buffer {
  if (changes.size === 0) return bytes;
  const additions: string[] = [];
  const splices: { start: number; end: number; text: string }[] = [];
  for (const [name, text] of changes) {
    const span = members.get(name);
    if (span) splices.push({ ...span, text });
    else additions.push(`${JSON.stringify(name)}:${text}`);
  }
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end, text } of splices.toSorted((left, right) => left.start - right.start)) {
    parts.push(bytes.subarray(at, start), Buffer.from(text));
    at = end;
  }
  const addition = additions.length === 0 ? '' : `${empty ? '' : ','}${additions.join(',')}`;
  parts.push(bytes.subarray(at, close), Buffer.from(addition), bytes.subarray(close));
  return Buffer.concat(parts);
}
