/** Parsing of URL search parameters. Pure. */

/** The given fields as text. The router parses digits as numbers. */
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

/** Drops empty parameters. */
export const withoutBlanks = (search: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined && value !== ''));
