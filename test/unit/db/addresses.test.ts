import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Reach, reachOf, reachOfHost } from '#db/addresses.ts';
import { checkBaseUrl, mayConnect } from '#server/upstreams/addresses.ts';

describe('the reach of an address', () => {
  test.each([
    '169.254.169.254',
    '169.254.0.23',
    '169.254.170.2',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    'fd00:ec2::254',
    'fd00:ec2::23',
    'fd20:ce::254',
    'fd00:42::42',
    'fe80::1',
    'fe80::a9fe:a9fe%eth0',
    '100.100.100.200',
    '168.63.129.16',
    '192.0.0.192',
    '0.0.0.0',
    '0.1.2.3',
    '::',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    'ff02::1',
    '192.0.2.1',
    '198.51.100.7',
    '203.0.113.9',
    '192.88.99.1',
    '2001:db8::1',
    '3fff::1',
    '100::1',
    'fec0::1',
    '5f00::1',
    '4000::1',
    '::7f00:1',
    '::ffff:0:7f00:1',
    '2001:0:a9fe:a9fe::1',
    '64:ff9b:1:a9fe:a9:fe00::',
    '64:ff9b:1::a9fe:a9fe',
    '2600::5efe:a9fe:a9fe',
    '2600::200:5efe:169.254.169.254',
    'no address',
    '',
    '127.1',
    '[::1]',
  ])('nowhere from %s', (address) => expect(reachOf(address)).toBe('never'));

  test.each([
    '127.0.0.1',
    '127.255.255.254',
    '::1',
    '0:0:0:0:0:0:0:1',
    '::1%lo',
    '::ffff:127.0.0.1',
    '::FFFF:7F00:1',
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '100.64.0.1',
    '100.127.255.255',
    '198.18.0.1',
    'fc00::1',
    'fd12:3456::1',
    '::ffff:10.1.2.3',
    '64:ff9b::a00:1',
    '64:ff9b:1::808:808',
    '2002:a00:1::1',
    '2002:808:808::1',
    '2600::5efe:10.0.0.1',
  ])('into a private network from %s', (address) => expect(reachOf(address)).toBe('private'));

  test.each([
    '1.1.1.1',
    '93.184.215.14',
    '172.15.255.255',
    '172.32.0.1',
    '100.63.255.255',
    '100.128.0.1',
    '169.253.1.1',
    '11.0.0.1',
    '2606:2800:21f:cb07:6820:80da:af6b:8b2c',
    '::ffff:93.184.215.14',
    '64:ff9b::5db8:d70e',
    '2a00:1450:4001:80b::200e',
  ])('to the internet from %s', (address) => expect(reachOf(address)).toBe('public'));
});

test.each<[string, Reach | null]>([
  ['localhost', 'private'],
  ['localhost.', 'private'],
  ['a.b.localhost', 'private'],
  ['localhost.localdomain', 'private'],
  ['ip6-localhost', 'private'],
  ['[::1]', 'private'],
  ['[fe80::1]', 'never'],
  ['8.8.8.8', 'public'],
  ['metadata.google.internal', 'never'],
  ['METADATA.google.internal.', 'never'],
  ['x.metadata.google.internal', 'never'],
  ['metadata', 'never'],
  ['metadata.goog', 'never'],
  ['instance-data', 'never'],
  ['instance-data.eu-west-1.compute.internal', 'never'],
  ['metadata.tencentyun.com', 'never'],
  ['api.metadata.cloud.ibm.com', 'never'],
  ['api.openai.com', null],
  ['ollama', null],
  ['host.docker.internal', null],
  ['metadata.example.com', null],
  ['notlocalhost', null],
  ['localhost.example.com', null],
])('the host %s is %s before it is looked up', (host, reach) => expect(reachOfHost(host)).toBe(reach));

/** How one and the same address of IPv4 may be written in a URL. */
const SPELLINGS: readonly ((bytes: readonly [number, number, number, number]) => string)[] = [
  (bytes) => bytes.join('.'),
  (bytes) => `${bytes.join('.')}.`,
  (bytes) => String(numberOf(bytes)),
  (bytes) => `0x${numberOf(bytes).toString(16)}`,
  (bytes) => `0${numberOf(bytes).toString(8)}`,
  (bytes) => bytes.map((byte) => `0x${byte.toString(16)}`).join('.'),
  (bytes) => bytes.map((byte) => `0${byte.toString(8)}`).join('.'),
  (bytes) => bytes.map((byte) => `0X000${byte.toString(16).toUpperCase()}`).join('.'),
  ([a, b, c, d]) => `${a}.${b}.${c * 256 + d}`,
  ([a, b, c, d]) => `${a}.0x${(b * 65_536 + c * 256 + d).toString(16)}`,
  (bytes) => bytes.join('%2e'),
  (bytes) => bytes.join('\u3002'),
  (bytes) => bytes.join('.').replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
  (bytes) => bytes.join('.').replaceAll(/./g, (each) => `%${each.codePointAt(0)?.toString(16)}`),
  (bytes) => `[::ffff:${bytes.join('.')}]`,
  (bytes) => `[::FFFF:${groupsOf(bytes)}]`,
  (bytes) => `[0:0:0:0:0:ffff:${groupsOf(bytes)}]`,
  (bytes) => `[::${bytes.join('.')}]`,
  (bytes) => `[::ffff:0:${bytes.join('.')}]`,
  (bytes) => `[64:ff9b::${bytes.join('.')}]`,
  (bytes) => `[64:ff9b:1::${bytes.join('.')}]`,
  (bytes) => `[2002:${groupsOf(bytes)}::1]`,
  (bytes) => `[2001:0:4136:e378:8000:63bf:${groupsOf(bytes.map((byte) => 255 - byte))}]`,
  (bytes) => `[2600::5efe:${bytes.join('.')}]`,
  (bytes) => `[fe80::200:5efe:${bytes.join('.')}]`,
];
const numberOf = (bytes: readonly number[]): number => bytes.reduce((sum, byte) => sum * 256 + byte, 0);
const groupsOf = ([a = 0, b = 0, c = 0, d = 0]: readonly number[]): string =>
  `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;

const byte = fc.nat(255);
const anyOf = (...head: number[]) =>
  fc
    .tuple(byte, byte, byte, byte)
    .map((bytes) => bytes.map((each, index) => head[index] ?? each) as [number, number, number, number]);
const never = fc.oneof(
  anyOf(169, 254),
  anyOf(100, 100, 100, 200),
  anyOf(168, 63, 129, 16),
  anyOf(192, 0, 0),
  anyOf(0),
  anyOf(224),
  anyOf(255),
  anyOf(203, 0, 113),
);
const inPrivate = fc.oneof(anyOf(127), anyOf(10), anyOf(192, 168), anyOf(172, 20), anyOf(100, 64));
const spelling = fc.constantFrom(...SPELLINGS);

describe('no notation of a forbidden address passes', () => {
  test('for addresses that are never allowed, in any network', () => {
    fc.assert(
      fc.property(never, spelling, fc.constantFrom('public', 'private'), (bytes, spell, network) => {
        expect(checkBaseUrl(`http://${spell(bytes)}/v1`, network)).not.toBeNull();
      }),
      { numRuns: 2_000 },
    );
  });

  test('for private addresses, unless allowed', () => {
    fc.assert(
      fc.property(inPrivate, spelling, (bytes, spell) => {
        expect(checkBaseUrl(`https://${spell(bytes)}:8443/v1`, 'public')).not.toBeNull();
      }),
      { numRuns: 2_000 },
    );
  });

  test('and every address is public, private or never', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
        const reach = reachOf(address);
        expect(mayConnect(reach, 'public')).toBe(reach === 'public');
        expect(mayConnect(reach, 'private')).toBe(reach !== 'never');
      }),
    );
  });
});

describe('a base address', () => {
  test.each([
    'https://api.openai.com/v1',
    'https://res.openai.azure.com/openai/v1',
    'http://1.1.1.1:8000/v1',
    'http://ollama:11434/v1',
    'https://[2a00:1450::1]/v1',
  ])('%s is taken for the internet', (url) => expect(checkBaseUrl(url, 'public')).toBeNull());

  test.each([
    'http://localhost:11434/v1',
    'http://127.0.0.1:8000/v1',
    'http://192.168.1.20:1234/v1',
    'http://[::1]:8000',
    'http://[fd12::7]:8000/v1',
  ])('%s is taken only where a private network is allowed', (url) => {
    expect(checkBaseUrl(url, 'private')).toBeNull();
    expect(checkBaseUrl(url, 'public')).toContain('Set "network" to "private"');
  });

  test.each([
    'http://169.254.169.254/latest',
    'http://metadata.google.internal/v1',
    'http://0/',
    'ftp://example.com/',
    'nonsense',
    'http://1.2.3.4.5/',
    '',
  ])('%s never is', (url) => {
    expect(checkBaseUrl(url, 'private')).not.toBeNull();
    expect(checkBaseUrl(url, 'public')).not.toBeNull();
  });
});
