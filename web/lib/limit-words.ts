import type { LimitRow } from '#server/dashboard/contract-keys.ts';

/** What limits count and for how long, in words. Pure. */

export const METER_WORDS: Record<LimitRow['meter'], string> = { requests: 'requests', tokens: 'tokens', cost_microusd: 'cost', concurrent: 'at the same time' };

/** Each time a window begins: "a day". */
export const WINDOW_WORDS: Record<LimitRow['window'], string> = { none: '', minute: 'a minute', hour: 'an hour', day: 'a day', week: 'a week', month: 'a month' };
