import { randomInt, randomUUID } from 'node:crypto';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const PUBLIC_ID_LENGTH = 8;
/** In a UUIDv4 all from here on is random but for the variant, which UUIDv7 shares. */
const RANDOM_TAIL = 15;

/**
 * A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits, so that ids sort by the
 * time they were made. The random bits are those of a UUIDv4, which Node makes from a pool.
 */
export function uuidv7(nowMs: number = Date.now()): string {
  const time = nowMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(RANDOM_TAIL)}`;
}

/** `length` characters of [0-9A-Za-z], each drawn without bias from the system's random source. */
export function randomBase62(length: number): string {
  let text = '';
  for (let index = 0; index < length; index++) text += BASE62[randomInt(BASE62.length)];
  return text;
}

/** The short id of an account or a key: what people see, type and find in the log. 47 bits. */
export function publicId(): string {
  return randomBase62(PUBLIC_ID_LENGTH);
}

/** `value` in base 62, padded on the left with zeros to `length` characters. */
export function toBase62(value: number, length: number): string {
  let rest = value;
  let text = '';
  while (text.length < length) {
    text = (BASE62[rest % BASE62.length] as string) + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}
