/**
 * Something in a request that a language model can't be asked. Never holds more of the request than the
 * place.
 */
export class UnsupportedField extends Error {
  override name = 'UnsupportedField';
  /** Where it stands: `messages[2].content[0].image_url`. */
  readonly param: string;
  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

/** A JSON object. @throws {UnsupportedField} */
export function objectAt(value: unknown, param: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UnsupportedField(param, `The field "${param}" must be an object.`);
  return value as Record<string, unknown>;
}

/** An array; nothing is an empty one. @throws {UnsupportedField} */
export function listAt(value: unknown, param: string): unknown[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new UnsupportedField(param, `The field "${param}" must be an array.`);
  return value as unknown[];
}

/** @throws {UnsupportedField} */
export function textAt(value: unknown, param: string): string {
  if (typeof value !== 'string') throw new UnsupportedField(param, `The field "${param}" must be a string.`);
  return value;
}

/** A number; undefined where the field is absent. @throws {UnsupportedField} */
export function numberAt(value: unknown, param: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number') throw new UnsupportedField(param, `The field "${param}" must be a number.`);
  return value;
}
