import { BlockList, isIP } from 'node:net';

/** Addresses and networks: where a key may be used from, or the proxies that are trusted. */
export type AddressSet = BlockList;

/** @param list addresses and networks, such as `10.0.0.0/8` or `2001:db8::1`. */
export function networksOf(list: readonly string[]): AddressSet {
  const networks = new BlockList();
  for (const each of list) {
    const [address = '', length] = each.split('/');
    const family = familyOf(address);
    if (family === null) throw new TypeError(`${each} is not an address or a network`);
    if (length === undefined) networks.addAddress(address, family);
    else networks.addSubnet(address, Number(length), family);
  }
  return networks;
}

/** Whether an address is in the set. Text that is not an address never is. */
export function isWithin(networks: AddressSet, address: string): boolean {
  const family = familyOf(address);
  return family !== null && networks.check(address, family);
}

/** An address without zone; one of IPv4 in its own form also where the socket is of IPv6. */
export function plainAddress(address: string): string {
  const zone = address.indexOf('%');
  const plain = zone < 0 ? address : address.slice(0, zone);
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain);
  return mapped?.[1] ?? plain;
}

function familyOf(address: string): 'ipv4' | 'ipv6' | null {
  const version = isIP(address);
  if (version === 0) return null;
  return version === 4 ? 'ipv4' : 'ipv6';
}
