import { z } from 'zod';

/** Values of environment variables. Each error names the allowed values, ranges included. */

/** A whole number within a range, both ends included. @param word that is allowed, too, for the message. */
export const wholeNumber = (least: number, most: number, word?: string) => {
  const either = word === undefined ? '' : `${word}, or `;
  const message = `must be ${either}a whole number from ${least} to ${most}`;
  return z.coerce.number(message).int(message).min(least, message).max(most, message);
};

/** A number above zero, up to a maximum if there is one. */
export const positiveNumber = (most?: number) => {
  const message = most === undefined ? 'must be a number above 0' : `must be a number above 0, up to ${most}`;
  const positive = z.coerce.number(message).positive(message);
  return most === undefined ? positive : positive.max(most, message);
};

/** One of some words. */
export const oneOf = <const T extends readonly [string, ...string[]]>(words: T) =>
  z.enum(words, `must be one of: ${words.join(', ')}`);

export const PostgresUrl = z.string().regex(/^postgres(ql)?:\/\//, 'must start with postgres://');

export const BearerToken = z
  .string()
  .regex(/^[\x21-\x7e]{16,}$/, 'must be at least 16 printable ASCII characters without blanks');

export const LogLevel = oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']);
