/** What the address of a page says behind its question mark, as texts. Pure. */

/** Those of the fields that are there. A router may have read a text of digits as a number. */
export function textsIn<Field extends string>(
  search: Record<string, unknown>,
  fields: readonly Field[],
  lengthMax: number,
): { [Each in Field]?: string } {
  const found: { [Each in Field]?: string } = {};
  for (const field of fields) {
    const value = search[field];
    if ((typeof value === 'string' && value !== '') || typeof value === 'number')
      found[field] = String(value).slice(0, lengthMax);
  }
  return found;
}

/** An address names only what narrows. */
export const withoutBlanks = (search: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined && value !== ''));
