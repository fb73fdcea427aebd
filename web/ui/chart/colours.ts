/** Series colors. */
export const SERVED = 'var(--series-1)';
export const FAULTY = 'var(--series-2)';
export const REST = 'var(--series-rest)';
export const SERIES = [
  'var(--series-1)',
  'var(--series-2)',
  'var(--series-3)',
  'var(--series-4)',
  'var(--series-5)',
  'var(--series-6)',
] as const;
