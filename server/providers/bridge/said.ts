/**
 * Something in a request that a language model can't be asked. Never holds more of the request than the
 * place.
 */
export class Unsaid extends Error {
  override name = 'Unsaid';
  /** Where it stands: `messages[2].content[0].image_url`. */
  readonly param: string;
  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

/** A JSON object. @throws {Unsaid} */
export function objectAt(value: unknown, param: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Unsaid(param, `The field "${param}" must be an object.`);
  return value as Record<string, unknown>;
}

/** An array; nothing is an empty one. @throws {Unsaid} */
export function listAt(value: unknown, param: string): unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Unsaid(param, `The field "${param}" must be an array.`);
  return value as unknown[];
}

/** @throws {Unsaid} */
export function textAt(value: unknown, param: string): string {
  if (typeof value !== 'string') throw new Unsaid(param, `The field "${param}" must be a string.`);
  return value;
}

/** A number; undefined where there is none. @throws {Unsaid} */
export function numberAt(value: unknown, param: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number') throw new Unsaid(param, `The field "${param}" must be a number.`);
  return value;
}
