import { DecisionError } from '#server/decide/decision.ts';

/** A position of the log, as an option names it. @throws {DecisionError} where it is not a whole number. */
export function readPosition(text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new DecisionError('invalid', `"${text}" is not a position of the log: name a whole number.`);
  return Number(text);
}
