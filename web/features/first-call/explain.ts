import { ADVICE } from '../../lib/format/advice.ts';

/** Advice for failed requests whose message alone is not enough. Pure. */

/** For requests with an invalid key or address, which are not recorded. */
const BY_CODE: Readonly<Record<string, string>> = {
  missing_api_key: 'The request has no API key. Send the header "Authorization: Bearer <key>".',
  invalid_api_key:
    'The API key is invalid. Check for missing characters, extra spaces and the "Bearer" prefix.',
  route_not_found: 'Unknown route. The base URL must end in /v1; requests go to /v1/chat/completions.',
};

const BY_STATUS: Readonly<Record<number, string>> = {
  0: 'The browser could not reach the relay. Check that it is running and that its address is correct.',
  401: 'The relay does not recognize this API key.',
  403: 'The API key is valid but not permitted to do this.',
  429: 'A limit was reached. See Limits.',
};

/** @param status 0 if there was no response. @returns null if the message is sufficient. */
export function adviceFor(status: number, code: string | null): string | null {
  const advice = ADVICE[code ?? ''];
  return (
    (advice && `${advice.why} ${advice.todo}`) ??
    BY_CODE[code ?? ''] ??
    BY_STATUS[status] ??
    (status >= 500 ? 'The provider failed, not your request. Try again in a moment.' : null)
  );
}
