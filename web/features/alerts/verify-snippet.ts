/** Verifies a delivery as described by Standard Webhooks. A test runs this code. */
export const VERIFY_SNIPPET = `import { createHmac, timingSafeEqual } from 'node:crypto';

/** body: the raw request body, before any parsing. */
export function isFromDaybook(headers, body, secret) {
  const id = headers['webhook-id'];
  const time = headers['webhook-timestamp'];
  if (!(Math.abs(Date.now() / 1000 - Number(time)) < 300)) return false;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key).update(id + '.' + time + '.').update(body).digest();
  return String(headers['webhook-signature']).split(' ').some((each) => {
    const actual = Buffer.from(each.slice('v1,'.length), 'base64');
    return each.startsWith('v1,') && actual.length === expected.length && timingSafeEqual(actual, expected);
  });
}
`;
