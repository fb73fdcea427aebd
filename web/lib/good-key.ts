import type { KeyRow } from '#server/contract/keys.ts';

/** Whether a key can still be used and changed. */
export const isActive = ({ state }: Pick<KeyRow, 'state'>): boolean =>
  state === 'active' || state === 'rotating';
