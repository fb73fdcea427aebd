/**
 * Whether two terms say the same, whatever the order of their fields. A list in another order is another one.
 */
export function sameTerms(one: object, other: object): boolean {
  return inOrder(one) === inOrder(other);
}

function inOrder(terms: object): string {
  return JSON.stringify(terms, (_name, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1)))
      : value,
  );
}
