/** Facts of calls as JSON, for the server that settles them. Pure. */

/** Stands for the ends of times that have none, which JSON has no number for. */
const ENDLESS = new Map<unknown, string>([
  [Infinity, '∞'],
  [-Infinity, '-∞'],
]);
const NUMBERS = new Map<unknown, number>([
  ['∞', Infinity],
  ['-∞', -Infinity],
]);

export const writeFacts = (facts: object): string =>
  JSON.stringify(facts, (_name, value: unknown) => ENDLESS.get(value) ?? value);

/** @param text as {@link writeFacts} wrote it. */
export const readFacts = (text: string): unknown =>
  JSON.parse(text, (_name, value: unknown) => NUMBERS.get(value) ?? value);
