import { ApiError } from '#server/errors/api-error.ts';
import type { ReportLoss, Text } from '#server/protocols/conversation.ts';
import { asRecord } from '#server/wire/counts.ts';

/** Values of a client's request, whatever it sent in their places. Pure. */

/** A request that can't be translated; its message names the field at fault. */
export class Untranslatable extends Error {
  readonly refusal: ApiError;

  constructor(param: string, problem: string) {
    const message = `The field "${param}" ${problem}.`;
    super(message);
    this.refusal = new ApiError('invalid_value', { message, param });
  }
}

export function recordAt(value: unknown, at: string): Record<string, unknown> {
  const record = asRecord(value);
  if (!record) throw new Untranslatable(at, 'must be an object');
  return record;
}

export function stringAt(record: Record<string, unknown>, name: string, at: string): string {
  const value = record[name];
  if (typeof value !== 'string') throw new Untranslatable(`${at}.${name}`, 'must be a string');
  return value;
}

export function arrayAt(value: unknown, at: string): unknown[] {
  if (!Array.isArray(value)) throw new Untranslatable(at, 'must be an array');
  return value as unknown[];
}

export const stringOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);
export const numberOrNull = (value: unknown): number | null => (typeof value === 'number' ? value : null);

/** A name of the client's, as far as a header can hold it; else that of its parent. */
export function lossName(parent: string, name: unknown): string {
  return typeof name === 'string' && /^[\w.-]{1,64}$/.test(name) ? `${parent}.${name}` : parent;
}

/** Reports each member that is set and not translated. */
export function reportOthers(
  request: Record<string, unknown>,
  translated: ReadonlySet<string>,
  report: ReportLoss,
): void {
  for (const [name, value] of Object.entries(request)) {
    if (translated.has(name) || value === null || !/^[\w.-]{1,64}$/.test(name)) continue;
    report(name);
  }
}

export const textOf = (text: string): Text => ({ type: 'text', text });
