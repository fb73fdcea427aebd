/** Whether two terms are equal, whatever the order of their fields. The order of a list matters. */
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
