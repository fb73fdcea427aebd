import type { EventOf } from '#db/events/events.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import type { CallSize } from '#server/limits/plausible-usage.ts';

/** The facts of a call that its ending follows from, wherever it is settled. */
export type BackgroundFacts = {
  accepted: EventOf<'request.accepted'>;
  /** The prices that were in force when it began. */
  price: CallPrice | null;
  size: CallSize;
  /** No more output is charged without the provider's report; null: no limit. */
  outputMax: number | null;
  attempts: number;
};

/** Stands for the ends of times that have none, which JSON has no number for. */
const ENDLESS = new Map<unknown, string>([
  [Infinity, '∞'],
  [-Infinity, '-∞'],
]);
const NUMBERS = new Map<unknown, number>([
  ['∞', Infinity],
  ['-∞', -Infinity],
]);

export const writeFacts = (facts: BackgroundFacts): string =>
  JSON.stringify(facts, (_name, value: unknown) => ENDLESS.get(value) ?? value);

export const readFacts = (text: string): BackgroundFacts =>
  JSON.parse(text, (_name, value: unknown) => NUMBERS.get(value) ?? value) as BackgroundFacts;
