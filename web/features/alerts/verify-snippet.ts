/**
 * How a receiver checks that a delivery is from this relay; by the Standard Webhooks scheme. It is run by a
 * test.
 */
export const VERIFY_SNIPPET = `import { createHmac, timingSafeEqual } from 'node:crypto';

/** body: the request's bytes as they came, before any parsing. */
export function isFromDaybook(headers, body, secret) {
  const id = headers['webhook-id'];
  const time = headers['webhook-timestamp'];
  if (!(Math.abs(Date.now() / 1000 - Number(time)) < 300)) return false;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const wanted = createHmac('sha256', key).update(id + '.' + time + '.').update(body).digest();
  return String(headers['webhook-signature']).split(' ').some((each) => {
    const given = Buffer.from(each.slice('v1,'.length), 'base64');
    return each.startsWith('v1,') && given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}
`;
