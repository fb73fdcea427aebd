/**
 * Counts the bytes and characters that a piece of code looks at or copies through the functions of Buffer,
 * String, RegExp and JSON, each call by the most that it may read. A search that starts over with each chunk
 * shows by its count, whatever it is made of, and no clock is needed.
 */

type AnyFunction = (this: unknown, ...given: unknown[]) => unknown;
type Patched = { owner: object; name: string; original: AnyFunction };

const lengthOf = (value: unknown): number =>
  typeof value === 'string' || ArrayBuffer.isView(value) ? (value as string | Buffer).length : 0;
const from = (length: number, at: unknown): number => Math.max(0, length - (typeof at === 'number' ? at : 0));
const allOf = (self: unknown): number => lengthOf(self);
/** A search that may begin at an offset. */
const searched = (self: unknown, given: readonly unknown[]): number => from(lengthOf(self), given[1]);

/** What a call reads, by the function's name. */
const READ: [object, Record<string, (self: unknown, given: readonly unknown[]) => number>][] = [
  [
    Buffer.prototype,
    {
      toString: allOf,
      latin1Slice: allOf,
      utf8Slice: allOf,
      indexOf: searched,
      includes: searched,
      copy: copied,
    },
  ],
  [Buffer, { concat: (_, given) => (given[0] as Buffer[]).reduce((sum, each) => sum + each.length, 0) }],
  [
    String.prototype,
    { indexOf: found, includes: found, split: allOf, matchAll: allOf, replace: allOf, replaceAll: allOf },
  ],
  [RegExp.prototype, { exec: matched }],
  [JSON, { parse: (_, given) => lengthOf(given[0]) }],
];

function copied(self: unknown, given: readonly unknown[]): number {
  const [, , start = 0, end = lengthOf(self)] = given as [unknown, unknown, number?, number?];
  return Math.max(0, Math.min(end, lengthOf(self)) - start);
}

/** A search of a string ends where it finds something. */
function found(self: unknown, given: readonly unknown[]): number {
  const at = originalIndexOf.call(self as string, given[0] as string, given[1] as number);
  return at < 0 ? searched(self, given) : at - ((given[1] as number | undefined) ?? 0) + lengthOf(given[0]);
}

/** A sticky pattern reads its match; any other pattern is counted as reading to the end. */
function matched(self: unknown, [text]: readonly unknown[]): number {
  const { source, flags, sticky, global, lastIndex } = self as RegExp;
  if (!sticky) return from(lengthOf(text), global ? lastIndex : 0);
  const pattern = new RegExp(source, flags);
  pattern.lastIndex = lastIndex;
  return (originalExec.call(pattern, text as string)?.[0].length ?? 0) + 1;
}

const originalExec = RegExp.prototype.exec;
const originalIndexOf = String.prototype.indexOf;

/** @returns how much was looked at. */
export async function countBytesRead(run: () => void | Promise<void>): Promise<number> {
  const patched: Patched[] = [];
  let count = 0;
  for (const [owner, functions] of READ) {
    for (const [name, read] of Object.entries(functions)) {
      const original = (owner as Record<string, AnyFunction>)[name] as AnyFunction;
      patched.push({ owner, name, original });
      Object.defineProperty(owner, name, {
        configurable: true,
        writable: true,
        value(this: unknown, ...given: unknown[]) {
          count += read(this, given);
          return Reflect.apply(original, this, given);
        },
      });
    }
  }
  try {
    await run();
  } finally {
    for (const { owner, name, original } of patched)
      Object.defineProperty(owner, name, { configurable: true, writable: true, value: original });
  }
  return count;
}
