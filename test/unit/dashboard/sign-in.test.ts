import { TOTP, Secret } from 'otpauth';
import { describe, expect, it } from 'vitest';
import { CreateAccount } from '#server/contract/accounts.ts';
import { ChangeKey, CreateKey } from '#server/contract/keys.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { freeName } from '#server/sign-in/registration.ts';
import { browserLabel } from '#server/sign-in/browser.ts';
import { coarseNetwork } from '#server/sign-in/origin.ts';
import { Passwords } from '#server/sign-in/passwords.ts';
import { createTotpSecret, stepOf } from '#server/sign-in/totp.ts';

describe('codes of a device', () => {
  // RFC 6238, appendix B, for SHA-1: the last six of its eight digits.
  const secret = Secret.fromUTF8('12345678901234567890').base32;
  it.each([
    [59, '287082'],
    [1_111_111_109, '081804'],
    [1_234_567_890, '005924'],
    [20_000_000_000, '353130'],
  ])('are those of the standard: at %i s', (atS, code) => {
    expect(stepOf(secret, code, atS * 1_000)).toBe(Math.floor(atS / 30));
  });

  it('are valid one step before and after their own, identified by that step', () => {
    const made = createTotpSecret();
    const nowMs = 1_800_000_010_000;
    const step = Math.floor(nowMs / 30_000);
    const code = (steps: number): string =>
      new TOTP({ secret: Secret.fromBase32(made) }).generate({ timestamp: nowMs + steps * 30_000 });
    expect([-1, 0, 1].map((steps) => stepOf(made, code(steps), nowMs))).toEqual([step - 1, step, step + 1]);
    const near = new Set([-1, 0, 1].map(code));
    for (const steps of [-3, -2, 2, 3])
      if (!near.has(code(steps))) expect(stepOf(made, code(steps), nowMs)).toBeNull();
  });
});

describe('passwords', () => {
  it('are known again however a keyboard writes them, and by nothing else', async () => {
    const passwords = new Passwords();
    const hash = (await passwords.hash('Zürich und Umgebung')) as string;
    expect(await passwords.verify(hash, 'Zu\u0308rich und Umgebung')).toBe(true);
    expect(await passwords.verify(hash, 'Zurich und Umgebung')).toBe(false);
    expect(await passwords.hash('Zürich und Umgebung')).not.toBe(hash);
    expect(await passwords.verify(null, 'Zürich und Umgebung')).toBe(false);
  });

  it('are hashed two at a time, fifty wait, and more are told so', async () => {
    const passwords = new Passwords();
    const all = await Promise.all(Array.from({ length: 55 }, () => passwords.hash('one of many')));
    expect(all.filter((each) => each instanceof ApiError).map((each) => each.code)).toEqual([
      'relay_overloaded',
      'relay_overloaded',
      'relay_overloaded',
    ]);
    expect(typeof (await passwords.hash('after the rush'))).toBe('string');
  });
});

it.each([
  ['192.0.2.77', '192.0.2.0/24'],
  ['2001:db8:5:1::1', '2001:db8:5::/48'],
  ['2001:0DB8:5::', '2001:db8:5::/48'],
  ['2001:db8::1', '2001:db8::/48'],
  ['2001:db8:10:0::1', '2001:db8:10::/48'],
  ['2001:0:0:7::1', '2001::/48'],
  ['::1', '::/48'],
  ['fe80::1:2:3:4', 'fe80::/48'],
  ['64:ff9b::192.0.2.1', '64:ff9b::/48'],
  ['', 'unknown'],
  ['not an address', 'unknown'],
])('a network is what a household has: %s', (address, network) =>
  expect(coarseNetwork(address)).toBe(network),
);

it.each([
  ['Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0', 'Firefox on Linux'],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/150.0 Safari/537.36 Edg/150.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/150.0 Safari/537.36',
    'Chrome on macOS',
  ],
  [
    'Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0 Mobile Safari/537.36',
    'Chrome on Android',
  ],
  ['curl/8.9', 'curl'],
  ['<script>alert(1)</script>', 'Unknown browser'],
  [undefined, 'Unknown browser'],
])('a browser is told in a few words: %s', (userAgent, label) => expect(browserLabel(userAgent)).toBe(label));

it("no account or key is named with what a table can't hold or a terminal obeys", () => {
  for (const name of ['n\u0000l', 'x\u001b[2J', 'x\u0085']) {
    expect(CreateAccount.safeParse({ name }).success).toBe(false);
    expect(CreateKey.safeParse({ name }).success).toBe(false);
    expect(ChangeKey.safeParse({ name }).success).toBe(false);
  }
  expect(CreateKey.safeParse({ name: ' Zürich 🚀 ' }).data?.name).toBe('Zürich 🚀');
});

describe('the name of a new account', () => {
  it('is the one that was asked for, or with the first free number', () => {
    expect(freeName('acme', new Set())).toBe('acme');
    expect(freeName('acme', new Set(['acme', 'acme 2']))).toBe('acme 3');
  });

  it('is never longer than names may be', () => {
    const long = 'x'.repeat(100);
    expect(freeName(long, new Set([long]))).toBe(`${'x'.repeat(98)} 2`);
  });
});
