import { ADVICE } from '../../lib/refusals.ts';

/** What to do about a call that failed, where the message alone does not tell. Pure. */

/** Of calls whose key or address is wrong, which leave no record. */
const BY_CODE: Readonly<Record<string, string>> = {
  missing_api_key: 'The call has no key. Send one header "Authorization: Bearer <key>".',
  invalid_api_key:
    'Look at the key once more: a blank or a line break at either end, a missing character, or another word than "Bearer" before it make it another key.',
  route_not_found: 'The address is not right. Base URLs end in /v1, and calls go to /v1/chat/completions.',
};

const BY_STATUS: Readonly<Record<number, string>> = {
  0: "The browser could not reach the relay. Is it running, and is this page's address still right?",
  401: 'The relay does not know this key.',
  403: 'The key is right, but may not do this.',
  429: 'A limit is reached. The page Limits shows them all.',
};

/** @param status 0 where no reply came. @returns null where the message says it all. */
export function whatToDo(status: number, code: string | null): string | null {
  const advice = ADVICE[code ?? ''];
  return (
    (advice && `${advice.why} ${advice.todo}`) ??
    BY_CODE[code ?? ''] ??
    BY_STATUS[status] ??
    (status >= 500 ? 'This is no fault of your call. Send it again in a moment.' : null)
  );
}
