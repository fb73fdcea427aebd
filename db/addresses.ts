import { BlockList, isIP } from 'node:net';

/**
 * Classifies configured addresses against SSRF, as seen from the operator's network. Pure: names are
 * classified only as far as that is possible without DNS.
 */

/**
 * - *public*: the internet.
 * - *private*: this machine or a private network, which has to be allowed.
 * - *never*: a cloud's metadata service, a link-local address, or an address of no single machine.
 */
export const REACHES = ['public', 'private', 'never'] as const;
export type Reach = (typeof REACHES)[number];

/** Metadata services outside the link-local network that most of them use: Alibaba, Azure, Oracle. */
const METADATA_4 = ['100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32'];
/** The same in IPv6: Amazon's instance services, Google, Scaleway. */
const METADATA_6 = ['fd00:ec2::/32', 'fd20:ce::/64', 'fd00:42::42/128'];

const NEVER_4 = listOf('ipv4', [
  ...METADATA_4,
  '0.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '240.0.0.0/4',
  // Protocol assignments and documentation.
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
]);
const PRIVATE_4 = listOf('ipv4', [
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '198.18.0.0/15',
]);
/** Exceptions within PUBLIC_6; of all other addresses only those of PRIVATE_6 are reachable. */
const NEVER_6 = listOf('ipv6', [...METADATA_6, '2001::/23', '2001:db8::/32', '3fff::/20']);
const PRIVATE_6 = listOf('ipv6', ['::1/128', 'fc00::/7']);
const PUBLIC_6 = listOf('ipv6', ['2000::/3']);

/**
 * IPv6 addresses that embed an IPv4 address, by their prefix in hexadecimal digits and the digit at which it
 * is embedded. They reach the IPv4 address; those that only some networks translate are private at best.
 * Older forms (::127.0.0.1, ::ffff:0:127.0.0.1, Teredo) reach nothing today and belong to the rest.
 */
const EMBEDDINGS: readonly { prefix: string; at: number; atBest: Reach }[] = [
  { prefix: '00000000000000000000ffff', at: 24, atBest: 'public' },
  { prefix: '0064ff9b0000000000000000', at: 24, atBest: 'public' },
  { prefix: '0064ff9b0001000000000000', at: 24, atBest: 'private' },
  { prefix: '2002', at: 4, atBest: 'private' },
];
/**
 * ISATAP, from the sixteenth digit on: the far end of the tunnel is an IPv4 address, whatever the prefix.
 */
const ISATAP = /^.{16}0[02]005efe/;

const METADATA_NAMES = [
  'metadata.goog',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'metadata.packet.net',
  'metadata.cloud.ibm.com',
  'metadata.google.internal',
];
/** Short names of metadata services, or names within the internal domains of clouds. */
const METADATA_HOST = /^(metadata|instance-data|rancher-metadata)(\.([\w-]+\.)*internal)?$/;
const LOCAL_NAME =
  /(^|\.)(localhost|localhost\.localdomain|localhost6|localhost6\.localdomain6|ip6-localhost|ip6-loopback)$/;

function listOf(family: 'ipv4' | 'ipv6', networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', length] = network.split('/');
    list.addSubnet(address, Number(length), family);
  }
  return list;
}

/** Classifies an address, in any notation; a text that is no address is *never*. */
export function reachOf(address: string): Reach {
  switch (isIP(address)) {
    case 4:
      return reachOf4(address);
    case 6:
      return reachOf6(digitsOf(address));
    default:
      return 'never';
  }
}

/**
 * Classifies the host of a parsed URL: an address, in brackets or not, or a name.
 * @returns null for a name that has to be resolved; classify its addresses then.
 */
export function reachOfHost(host: string): Reach | null {
  const plain = host.replace(/^\[|\]$|\.+$/g, '').toLowerCase();
  if (isIP(plain) !== 0) return reachOf(plain);
  if (
    METADATA_HOST.test(plain) ||
    METADATA_NAMES.some((name) => plain === name || plain.endsWith(`.${name}`))
  )
    return 'never';
  return LOCAL_NAME.test(plain) ? 'private' : null;
}

function reachOf4(address: string): Reach {
  if (NEVER_4.check(address)) return 'never';
  return PRIVATE_4.check(address) ? 'private' : 'public';
}

function reachOf6(digits: string): Reach {
  const embedding = EMBEDDINGS.find(({ prefix }) => digits.startsWith(prefix));
  if (embedding) return stricter(embedding.atBest, reachOf4(dottedOf(digits, embedding.at)));
  const own = reachOfPlain6(digits.replaceAll(/(.{4})(?=.)/g, '$1:'));
  return ISATAP.test(digits) ? stricter(own, reachOf4(dottedOf(digits, 24))) : own;
}

function reachOfPlain6(address: string): Reach {
  if (NEVER_6.check(address, 'ipv6')) return 'never';
  if (PRIVATE_6.check(address, 'ipv6')) return 'private';
  return PUBLIC_6.check(address, 'ipv6') ? 'public' : 'never';
}

function stricter(one: Reach, other: Reach): Reach {
  return REACHES.indexOf(one) > REACHES.indexOf(other) ? one : other;
}

/** The 32 hexadecimal digits of an IPv6 address, without its zone. */
function digitsOf(address: string): string {
  // A URL normalizes every address to its shortest, hexadecimal notation.
  const host = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const [head = '', tail] = host.split('::');
  const before = groupsOf(head);
  const after = groupsOf(tail ?? '');
  const between = Array.from({ length: 8 - before.length - after.length }, () => '0000');
  return [...before, ...between, ...after].join('');
}

function groupsOf(text: string): string[] {
  return text === '' ? [] : text.split(':').map((group) => group.padStart(4, '0'));
}

function dottedOf(digits: string, at: number): string {
  return [0, 2, 4, 6].map((each) => Number.parseInt(digits.slice(at + each, at + each + 2), 16)).join('.');
}
