import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { randomBase62 } from '#db/ids.ts';
import { createSecret } from '#server/secrets/key-secret.ts';
import { exchange } from '../support/exchange.ts';
import { CHAT, expectRefusal, HELLO, onlyReply, rawRequest, requestIdsOf } from '../support/wire/raw-http.ts';
import { footprint, startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

let upstream: ScriptedUpstream;
let relay: TestRelay;
/** The secrets that the forms below are made of. */
const secrets = { valid: '', other: '', revoked: '', expired: '', suspended: '' };

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [upstream] });
  secrets.valid = relay.key;
  secrets.other = (await relay.createKey({ name: 'other' })).secret;
  const revoked = await relay.createKey({ name: 'revoked' });
  secrets.revoked = revoked.secret;
  await relay.control((control) => control.revokeKey(revoked.id));
  await relay.createAccount('suspended');
  secrets.suspended = (await relay.createKey({ account: 'suspended' })).secret;
  await relay.control((control) => control.suspendAccount('suspended'));
  const expiresAt = new Date(Date.now() + 300);
  secrets.expired = (await relay.createKey({ name: 'expired', expiresAt })).secret;
  await until(
    () => Date.now(),
    (now) => now > expiresAt.getTime() + 100,
    'the clock',
  );
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const utf8 = (text: string): string => Buffer.from(text).toString('latin1');
/** The public id of one key with the random part and checksum of another. */
const crossed = (): string => secrets.valid.slice(0, 12) + secrets.other.slice(12);
/** The public id of one key with a random part of our own, and a checksum that is right. */
const forged = (): string => createSecret(secrets.valid.slice(4, 12));
const changed = (key: string, at: number): string =>
  key.slice(0, at) + (key[at] === 'x' ? 'y' : 'x') + key.slice(at + 1);

type Form = [name: string, lines: () => string[], more?: () => { start?: string; body?: string }];

const INVALID: Form[] = [
  ['two blanks between scheme and key', () => [`Authorization: Bearer  ${secrets.valid}`]],
  ['three blanks between scheme and key', () => [`Authorization: Bearer   ${secrets.valid}`]],
  ['a tab between scheme and key', () => [`Authorization: Bearer\t${secrets.valid}`]],
  ['a blank and a tab between scheme and key', () => [`Authorization: Bearer \t${secrets.valid}`]],
  ['no blank between scheme and key', () => [`Authorization: Bearer${secrets.valid}`]],
  ['a colon between scheme and key', () => [`Authorization: Bearer: ${secrets.valid}`]],
  ['an equals sign between scheme and key', () => [`Authorization: Bearer=${secrets.valid}`]],
  ['the scheme twice', () => [`Authorization: Bearer Bearer ${secrets.valid}`]],
  [
    'a blank inside the key',
    () => [`Authorization: Bearer ${secrets.valid.slice(0, 20)} ${secrets.valid.slice(20)}`],
  ],
  [
    'a tab inside the key',
    () => [`Authorization: Bearer ${secrets.valid.slice(0, 20)}\t${secrets.valid.slice(20)}`],
  ],
  ['text after the key', () => [`Authorization: Bearer ${secrets.valid} x`]],
  ['a comma after the key', () => [`Authorization: Bearer ${secrets.valid},`]],
  ['two keys joined by a comma', () => [`Authorization: Bearer ${secrets.valid}, Bearer ${secrets.other}`]],
  [
    'the same key twice, joined by a comma',
    () => [`Authorization: Bearer ${secrets.valid},${secrets.valid}`],
  ],
  ['quotes around the key', () => [`Authorization: Bearer "${secrets.valid}"`]],
  ['angle brackets around the key', () => [`Authorization: Bearer <${secrets.valid}>`]],
  [
    'the header twice, with one key',
    () => [`Authorization: Bearer ${secrets.valid}`, `Authorization: Bearer ${secrets.valid}`],
  ],
  [
    'the header twice, the valid one first',
    () => [`Authorization: Bearer ${secrets.valid}`, 'Authorization: Bearer x'],
  ],
  [
    'the header twice, the valid one last',
    () => ['authorization: Bearer x', `AUTHORIZATION: Bearer ${secrets.valid}`],
  ],
  ['the header twice, one of them empty', () => ['Authorization:', `Authorization: Bearer ${secrets.valid}`]],
  ['the scheme Basic', () => [`Authorization: Basic ${Buffer.from(`:${secrets.valid}`).toString('base64')}`]],
  ['the scheme Basic before the bare key', () => [`Authorization: Basic ${secrets.valid}`]],
  ['the scheme Token', () => [`Authorization: Token ${secrets.valid}`]],
  ['no scheme', () => [`Authorization: ${secrets.valid}`]],
  ['the scheme alone', () => ['Authorization: Bearer']],
  ['the scheme and a blank alone', () => ['Authorization: Bearer ']],
  ['an empty value', () => ['Authorization:']],
  ['a value of blanks', () => ['Authorization:    ']],
  ['a no-break space after the key', () => [`Authorization: Bearer ${secrets.valid}\xa0`]],
  ['a no-break space before the key', () => [`Authorization: Bearer \xa0${secrets.valid}`]],
  ['the byte 0x80 after the key', () => [`Authorization: Bearer ${secrets.valid}\x80`]],
  ['the byte 0xFF after the key', () => [`Authorization: Bearer ${secrets.valid}\xff`]],
  ['a zero-width space after the key', () => [`Authorization: Bearer ${secrets.valid}${utf8('\u200b')}`]],
  [
    'a zero-width joiner inside the key',
    () => [`Authorization: Bearer ${changedTo(secrets.valid, utf8('\u200d'))}`],
  ],
  ['a byte-order mark before the key', () => [`Authorization: Bearer ${utf8('\ufeff')}${secrets.valid}`]],
  ['a byte-order mark before the scheme', () => [`Authorization: ${utf8('\ufeff')}Bearer ${secrets.valid}`]],
  [
    'an ideographic space between scheme and key',
    () => [`Authorization: Bearer${utf8('\u3000')}${secrets.valid}`],
  ],
  ['a Cyrillic letter in the scheme', () => [`Authorization: B${utf8('\u0435')}arer ${secrets.valid}`]],
  ['a NUL after the key', () => [`Authorization: Bearer ${secrets.valid}\0`]],
  ['a NUL before the key', () => [`Authorization: Bearer \0${secrets.valid}`]],
  ['the byte 0x01 after the key', () => [`Authorization: Bearer ${secrets.valid}\x01`]],
  ['a DEL after the key', () => [`Authorization: Bearer ${secrets.valid}\x7f`]],
  ['a vertical tab between scheme and key', () => [`Authorization: Bearer\x0b${secrets.valid}`]],
  ['a form feed after the key', () => [`Authorization: Bearer ${secrets.valid}\x0c`]],
  ['a bare CR after the key', () => [`Authorization: Bearer ${secrets.valid}\r`]],
  ['a bare CR inside the key', () => [`Authorization: Bearer ${changedTo(secrets.valid, '\r')}`]],
  ['a value that is folded over two lines', () => [`Authorization: Bearer\r\n ${secrets.valid}`]],
  ['a value that is continued by a blank line start', () => [`Authorization: Bearer ${secrets.valid}\r\n\t`]],
  ['percent-encoding in the key', () => [`Authorization: Bearer ${secrets.valid.replace('_', '%5F')}`]],
  ['a key without its last character', () => [`Authorization: Bearer ${secrets.valid.slice(0, -1)}`]],
  ['a key without its first character', () => [`Authorization: Bearer ${secrets.valid.slice(1)}`]],
  ['a key with one character more', () => [`Authorization: Bearer ${secrets.valid}0`]],
  [
    'a key with one character of its id changed',
    () => [`Authorization: Bearer ${changed(secrets.valid, 6)}`],
  ],
  ['a key with one random character changed', () => [`Authorization: Bearer ${changed(secrets.valid, 30)}`]],
  [
    'a key with a wrong checksum',
    () => [`Authorization: Bearer ${changed(secrets.valid, secrets.valid.length - 1)}`],
  ],
  ['a key in lower case', () => [`Authorization: Bearer ${otherCase(secrets.valid, 'toLowerCase')}`]],
  ['a key in upper case', () => [`Authorization: Bearer ${otherCase(secrets.valid, 'toUpperCase')}`]],
  ['a key with another prefix', () => [`Authorization: Bearer sk-${secrets.valid.slice(4)}`]],
  ['a well-formed key with an unknown id', () => [`Authorization: Bearer ${createSecret(randomBase62(8))}`]],
  ['the id of one key with the secret of another', () => [`Authorization: Bearer ${crossed()}`]],
  ['a known id with a secret of the right form', () => [`Authorization: Bearer ${forged()}`]],
  ['the prefix and id of a key alone', () => [`Authorization: Bearer ${secrets.valid.slice(0, 13)}`]],
  ['the key in hexadecimal', () => [`Authorization: Bearer ${Buffer.from(secrets.valid).toString('hex')}`]],
  ['a value of 20 KB', () => [`Authorization: Bearer ${secrets.valid}${'0'.repeat(20 * 1024)}`]],
  ['a value of 33 KB', () => [`Authorization: Bearer ${'0'.repeat(33 * 1024)}`]],
  [
    'a valid value after 20 KB of blanks inside it',
    () => [`Authorization: Bearer${' '.repeat(20 * 1024)}${secrets.valid}`],
  ],
  [
    'an invalid key in a request in HTTP/1.0',
    () => [`Authorization: Bearer ${forged()}`],
    () => ({ start: `POST ${CHAT} HTTP/1.0` }),
  ],
  [
    'an invalid key with an absolute target',
    () => [`Authorization: Bearer ${forged()}`],
    () => ({ start: `POST http://127.0.0.1${CHAT} HTTP/1.1` }),
  ],
  [
    'an invalid key beside a valid x-api-key',
    () => ['Authorization: Bearer x', `x-api-key: ${secrets.valid}`],
  ],
  ['a blank before the colon', () => [`Authorization : Bearer ${secrets.valid}`]],
  ['a tab before the colon', () => [`Authorization\t: Bearer ${secrets.valid}`]],
];

/** A key whose 21st character is something else. */
function changedTo(key: string, text: string): string {
  return key.slice(0, 20) + text + key.slice(21);
}

/** All but the prefix, so that the letters' case is everything that is wrong. */
function otherCase(key: string, how: 'toLowerCase' | 'toUpperCase'): string {
  const other = key.slice(0, 4) + key.slice(4)[how]();
  return other === key ? changed(key, 30) : other;
}

const MISSING: Form[] = [
  ['no Authorization header', () => []],
  [
    'the key in the query only',
    () => [],
    () => ({ start: `POST ${CHAT}?api_key=${secrets.valid}&key=${secrets.valid} HTTP/1.1` }),
  ],
  [
    'the key in a cookie only',
    () => [`Cookie: authorization=Bearer ${secrets.valid}; api_key=${secrets.valid}`],
  ],
  ['the key in x-api-key only', () => [`x-api-key: ${secrets.valid}`]],
  ['the key in api-key only', () => [`api-key: ${secrets.valid}`]],
  ['the key in Proxy-Authorization only', () => [`Proxy-Authorization: Bearer ${secrets.valid}`]],
  ['the key in X-Authorization only', () => [`X-Authorization: Bearer ${secrets.valid}`]],
  [
    'the key in the body only',
    () => [],
    () => ({
      body: HELLO.replace('{', `{"api_key":"${secrets.valid}","authorization":"Bearer ${secrets.valid}",`),
    }),
  ],
  [
    'the key as user of an absolute target',
    () => [],
    () => ({ start: `POST http://${secrets.valid}@127.0.0.1${CHAT} HTTP/1.1` }),
  ],
  ['an underscore header', () => [`Authorization_: Bearer ${secrets.valid}`]],
];

const ENDED: [name: string, secret: () => string, status: number, code: string][] = [
  ['a revoked key', () => secrets.revoked, 401, 'api_key_revoked'],
  ['an expired key', () => secrets.expired, 401, 'api_key_expired'],
  ['a valid key of a suspended account', () => secrets.suspended, 403, 'account_disabled'],
];

const ACCEPTED: Form[] = [
  ['the plain header', () => [`Authorization: Bearer ${secrets.valid}`]],
  ['the scheme in lower case', () => [`Authorization: bearer ${secrets.valid}`]],
  ['the scheme in upper case', () => [`Authorization: BEARER ${secrets.valid}`]],
  ['the scheme in mixed case', () => [`Authorization: bEaReR ${secrets.valid}`]],
  ["the header's name in lower case", () => [`authorization: Bearer ${secrets.valid}`]],
  ["the header's name in upper case", () => [`AUTHORIZATION: Bearer ${secrets.valid}`]],
  // HTTP strips blanks around a value before any program sees it, so these equal the plain header.
  ['no blank after the colon', () => [`Authorization:Bearer ${secrets.valid}`]],
  ['blanks and tabs before the value', () => [`Authorization: \t  Bearer ${secrets.valid}`]],
  ['blanks after the value', () => [`Authorization: Bearer ${secrets.valid}   `]],
  ['a tab after the value', () => [`Authorization: Bearer ${secrets.valid}\t`]],
  [
    'a valid key with an absolute target',
    () => [`Authorization: Bearer ${secrets.valid}`],
    () => ({ start: `POST http://127.0.0.1${CHAT} HTTP/1.1` }),
  ],
  [
    'a valid key in HTTP/1.0',
    () => [`Authorization: Bearer ${secrets.valid}`],
    () => ({ start: `POST ${CHAT} HTTP/1.0` }),
  ],
  [
    'a valid key and another one in x-api-key',
    () => [`Authorization: Bearer ${secrets.valid}`, 'x-api-key: nonsense'],
  ],
];

describe('any Authorization other than exactly one valid Bearer key is a 401 that leaves no trace', () => {
  test.each(INVALID)('%s', async (_name, lines, more) => {
    const before = await footprint(relay, upstream);
    const reply = onlyReply(await exchange(relay.port, rawRequest(lines(), more?.())));
    expectRefusal(reply, 401, 'invalid_api_key');
    expect(reply.header('www-authenticate')).toBe('Bearer');
    expect(await footprint(relay, upstream)).toEqual(before);
  });

  test.each(MISSING)('%s', async (_name, lines, more) => {
    const before = await footprint(relay, upstream);
    const reply = onlyReply(await exchange(relay.port, rawRequest(lines(), more?.())));
    expectRefusal(reply, 401, 'missing_api_key');
    expect(reply.header('www-authenticate')).toBe('Bearer');
    expect(await footprint(relay, upstream)).toEqual(before);
  });

  test.each(ENDED)('%s is informed, as who holds it may know', async (_name, secret, status, code) => {
    const before = await footprint(relay, upstream);
    expectRefusal(
      onlyReply(await exchange(relay.port, rawRequest([`Authorization: Bearer ${secret()}`]))),
      status,
      code,
    );
    expect(await footprint(relay, upstream)).toEqual(before);
  });

  const MIB = 'k'.repeat(1024 * 1024);

  test('a value of 1 MB, in one write', async () => {
    const before = await footprint(relay, upstream);
    expectRefusal(
      onlyReply(await exchange(relay.port, rawRequest([`Authorization: Bearer ${MIB}`]))),
      401,
      'invalid_api_key',
    );
    expect(await footprint(relay, upstream)).toEqual(before);
  });

  test('a value of 1 MB, in many small writes', async () => {
    const before = await footprint(relay, upstream);
    const request = rawRequest([`Authorization: Bearer ${MIB}`]);
    const pieces = Array.from({ length: Math.ceil(request.length / 1000) }, (_, at) =>
      request.subarray(at * 1000, (at + 1) * 1000),
    );
    expectRefusal(onlyReply(await exchange(relay.port, pieces)), 401, 'invalid_api_key');
    expect(await footprint(relay, upstream)).toEqual(before);
  });

  test('the same holds for the list of models', async () => {
    for (const [, lines] of INVALID.slice(0, 30)) {
      const reply = onlyReply(
        await exchange(relay.port, rawRequest(lines(), { start: 'GET /v1/models HTTP/1.1', body: '' })),
        'GET',
      );
      expectRefusal(reply, 401, 'invalid_api_key');
    }
  });
});

test.each(ACCEPTED)('%s is accepted, and relayed once', async (_name, lines, more) => {
  const before = upstream.ledger.attempts.length;
  const reply = onlyReply(await exchange(relay.port, rawRequest(lines(), more?.())));
  expect(reply.status).toBe(200);
  expect(requestIdsOf(reply)).toHaveLength(1);
  expect(upstream.ledger.attempts).toHaveLength(before + 1);
});
