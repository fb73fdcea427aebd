import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Networks, PermissionsShape } from '#db/limits/limits.ts';
import { NamePatterns, Origins, permissionsOf } from '#db/limits/permissions.ts';
import { isWithin, networksOf, plainAddress } from '#server/access/networks.ts';
import { clientAddress } from '#server/access/request-context.ts';
import { anyKeyTerms } from '../../support/log/arbitrary-event.ts';

describe('terms', () => {
  test('that say nothing of models, routes and origins permit everything, and cost nothing', () => {
    expect(permissionsOf({})).toBeNull();
    expect(permissionsOf({ routes: ['/v1/models'] })).toMatchObject({ models: null, origins: null });
  });

  test('with an empty list permit nothing', () => {
    const none = permissionsOf({ models: [], routes: [], origins: [] });
    expect([
      none?.models?.has('gpt-4o'),
      none?.routes?.has('/v1/models'),
      none?.origins?.has(null),
      none?.origins?.has('https://a.example'),
    ]).toEqual([false, false, false, false]);
  });

  test('of any kind compile', () => {
    fc.assert(
      fc.property(anyKeyTerms, (terms) => {
        permissionsOf(terms);
        networksOf(terms.networks ?? []);
      }),
    );
  });
});

describe('a list of models', () => {
  test.each<[string, string[], string, boolean]>([
    ['a name', ['gpt-4o'], 'gpt-4o', true],
    ['a longer name', ['gpt-4o'], 'gpt-4o-mini', false],
    ['another letter case', ['gpt-4o'], 'GPT-4o', false],
    ['a beginning', ['claude-*'], 'claude-3-5-sonnet', true],
    ['a pattern within', ['*-mini-*'], 'gpt-4o-mini-2024', true],
    ['everything', ['*'], 'anything at all', true],
    ['the second of a list', ['a', 'b*'], 'bc', true],
    ['none of a list', ['a', 'b*'], 'c', false],
  ])('%s: %j and %s', (_, list, name, permitted) => {
    expect(new NamePatterns(list).has(name)).toBe(permitted);
  });

  test('permits just the names themselves where it has no pattern', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '.'), minLength: 1, maxLength: 3 }), {
          maxLength: 4,
        }),
        fc.string({ unit: fc.constantFrom('a', 'b', '.'), maxLength: 3 }),
        (list, name) => {
          expect(new NamePatterns(list).has(name)).toBe(list.includes(name));
        },
      ),
    );
  });
});

describe('a list of origins', () => {
  test.each<[string, string[], string | null, boolean]>([
    ['the origin itself', ['https://app.example.com'], 'https://app.example.com', true],
    [
      'another letter case, which names the same host',
      ['https://app.example.com'],
      'HTTPS://App.Example.com',
      true,
    ],
    ['another scheme', ['https://app.example.com'], 'http://app.example.com', false],
    ['another port', ['https://app.example.com'], 'https://app.example.com:8443', false],
    [
      'the usual port, written out in the list',
      ['https://app.example.com:443'],
      'https://app.example.com',
      true,
    ],
    [
      'the usual port, written out by the client',
      ['http://app.example.com'],
      'http://app.example.com:80',
      true,
    ],
    ['the usual port of the other scheme', ['http://app.example.com'], 'http://app.example.com:443', false],
    ['a host below', ['https://*.example.com'], 'https://app.example.com', true],
    ['a host far below', ['https://*.example.com'], 'https://a.b-2.c.example.com', true],
    ['the host itself, which is not below it', ['https://*.example.com'], 'https://example.com', false],
    ['nothing before the dot', ['https://*.example.com'], 'https://.example.com', false],
    ['a host that only ends alike', ['https://*.example.com'], 'https://evilexample.com', false],
    [
      'a host that has it in the middle',
      ['https://*.example.com'],
      'https://app.example.com.evil.org',
      false,
    ],
    ['a path that ends alike', ['https://*.example.com'], 'https://evil.org/.example.com', false],
    ['a port that hides a host', ['https://*.example.com'], 'https://evil.org:80.example.com', false],
    ['a user that hides a host', ['https://*.example.com'], 'https://evil.org@app.example.com', false],
    [
      'a host below, with the port of the pattern',
      ['http://*.example.com:3000'],
      'http://app.example.com:3000',
      true,
    ],
    ['a host below, on another port', ['http://*.example.com:3000'], 'http://app.example.com', false],
    ['an address', ['http://[::1]:3000'], 'http://[::1]:3000', true],
    ['no header, where that is permitted', ['none'], null, true],
    ['no header, where only pages are', ['https://app.example.com'], null, false],
    ['a header that says none', ['none'], 'none', false],
    ['the origin of a page without one', ['none', 'https://app.example.com'], 'null', false],
    ['an empty header', ['none'], '', false],
  ])('%s: %j and %s', (_, list, origin, permitted) => {
    expect(PermissionsShape.origins.safeParse(list).success).toBe(true);
    expect(new Origins(list).has(origin)).toBe(permitted);
  });

  test("with a wildcard permits a host exactly where its end is the list's and labels stand before", () => {
    const host = fc.string({ unit: fc.constantFrom('a', 'b', '.', '-', ':', '/', '@'), maxLength: 8 });
    fc.assert(
      fc.property(host, (name) => {
        const expected = /^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.b\.a$/.test(name);
        expect(new Origins(['https://*.b.a']).has(`https://${name}`)).toBe(expected);
      }),
      { numRuns: 2_000, examples: [['a.b.a'], ['b.a'], ['.b.a'], ['a/.b.a']] },
    );
  });
});

describe('a list of networks', () => {
  test.each<[string, string[], string, boolean]>([
    ['an address', ['192.0.2.7'], '192.0.2.7', true],
    ['its neighbour', ['192.0.2.7'], '192.0.2.8', false],
    ['the first of a network', ['10.0.0.0/8'], '10.0.0.0', true],
    ['the last of a network', ['10.0.0.0/8'], '10.255.255.255', true],
    ['the first after it', ['10.0.0.0/8'], '11.0.0.0', false],
    ['a network named by one of its addresses', ['10.1.2.3/8'], '10.9.9.9', true],
    ['everything of IPv4', ['0.0.0.0/0'], '203.0.113.9', true],
    ['IPv6, of which that says nothing', ['0.0.0.0/0'], '2001:db8::1', false],
    ['an address of IPv6, in another spelling', ['2001:db8::1'], '2001:0DB8:0:0::1', true],
    ['a network of IPv6', ['2001:db8::/32'], '2001:db8:ffff::9', true],
    ['its neighbour of IPv6', ['2001:db8::/32'], '2001:db9::', false],
    ['IPv4 as IPv6', ['10.0.0.0/8'], '::ffff:a01:203', true],
    ['no address', ['0.0.0.0/0', '::/0'], 'localhost', false],
    ['an unknown address', ['0.0.0.0/0', '::/0'], '', false],
  ])('%s: %j and %s', (_, list, address, permitted) => {
    expect(Networks.safeParse(list).success).toBe(true);
    expect(isWithin(networksOf(list), address)).toBe(permitted);
  });

  test('that the vocabulary takes compiles, and holds each address that it names', () => {
    const entry = fc.oneof(
      fc.tuple(fc.ipV4(), fc.option(fc.nat(32))),
      fc.tuple(fc.ipV6(), fc.option(fc.nat(128))),
    );
    fc.assert(
      fc.property(entry, ([address, length]) => {
        const text = length === null ? address : `${address}/${length}`;
        fc.pre(Networks.safeParse([text]).success);
        expect(isWithin(networksOf([text]), address)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a caller's address", () => {
  const proxies = networksOf(['127.0.0.1', '10.0.0.0/8', '::1']);

  test.each<[string, string, string | undefined, string]>([
    ["is the socket's", '203.0.113.9', undefined, '203.0.113.9'],
    ["is the socket's, whatever a stranger says of others", '203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['is what a trusted proxy says', '127.0.0.1', '198.51.100.1', '198.51.100.1'],
    [
      'is what the last of several trusted proxies says',
      '127.0.0.1',
      '198.51.100.1, 10.0.0.2,10.0.0.3',
      '198.51.100.1',
    ],
    ['is not what the client wrote in front', '127.0.0.1', '192.0.2.66, 198.51.100.1', '198.51.100.1'],
    ['is the first one where all are trusted', '127.0.0.1', '10.0.0.9, 10.0.0.2', '10.0.0.9'],
    ["is the proxy's own where it says nothing", '10.0.0.2', undefined, '10.0.0.2'],
    ['is read with a port', '127.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
    ['is read in brackets', '::1', '[2001:db8::7]:4711', '2001:db8::7'],
    ['is of IPv4 where the socket is of both', '::ffff:127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['has no zone', 'fe80::1%eth0', undefined, 'fe80::1'],
    ['is not known where a trusted proxy names none', '127.0.0.1', 'unknown', ''],
    ['is not known where a trusted proxy says nothing of it', '127.0.0.1', '', ''],
    ['is not looked for before what is no address', '127.0.0.1', '192.0.2.66, x', ''],
    ['is not known when the socket is closed', '', '192.0.2.66', ''],
  ])('%s: %s, %s', (_, socket, forwarded, expected) => {
    expect(clientAddress(socket, forwarded, proxies)).toBe(expected);
  });

  test("is the socket's where no proxy is trusted", () => {
    expect(clientAddress('127.0.0.1', '198.51.100.1', null)).toBe('127.0.0.1');
    expect(plainAddress('::FFFF:192.0.2.1')).toBe('192.0.2.1');
  });
});
