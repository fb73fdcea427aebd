/**
 * The event that a change appended, of several the last; null where nothing had to change. Every reply to a
 * change carries one.
 */
export type Change = { event: { type: string; position: number } | null };

export const UNCHANGED: Change = { event: null };

export const isChange = ({ event }: Change): boolean => event !== null;
