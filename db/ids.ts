import { randomBytes, randomInt } from 'node:crypto';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PUBLIC_ID_LENGTH = 8;

/**
 * Random bytes are drawn for about two hundred ids at a time: a draw per id would cost more than the id
 * itself.
 */
const DRAWN_BYTES = 2048;
const ID_DIGITS = 19;
const VARIANTS = '89ab';
let digits = '';
let digitsUsed = 0;
/** The digits of the last millisecond, which many ids share under load. */
let prefix = '';
let prefixMs = -1;

/**
 * A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits, so that ids sort by creation time.
 */
export function uuidv7(nowMs: number = Date.now()): string {
  if (digitsUsed + ID_DIGITS > digits.length) {
    digits = randomBytes(DRAWN_BYTES).toString('hex');
    digitsUsed = 0;
  }
  const at = digitsUsed;
  digitsUsed += ID_DIGITS;
  if (nowMs !== prefixMs) {
    const time = nowMs.toString(16).padStart(12, '0');
    prefix = `${time.slice(0, 8)}-${time.slice(8)}-7`;
    prefixMs = nowMs;
  }
  const variant = VARIANTS[Number.parseInt(digits[at] as string, 16) & 3] as string;
  const random = digits.slice(at + 1, at + ID_DIGITS);
  return `${prefix}${random.slice(0, 3)}-${variant}${random.slice(3, 6)}-${random.slice(6)}`;
}

/** When a UUIDv7 was made, in ms since 1970. */
export const timeOfUuidv7 = (id: string): number =>
  Number.parseInt(`${id.slice(0, 8)}${id.slice(9, 13)}`, 16);

/** `length` characters of [0-9A-Za-z], each drawn without bias from the system's random source. */
export function randomBase62(length: number): string {
  let text = '';
  for (let index = 0; index < length; index++) text += BASE62[randomInt(BASE62.length)];
  return text;
}

/** The short id of an account or a key, as it is displayed, typed and logged. 47 bits. */
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

/** The same of a number of any size; the digits above `length` are dropped. */
export function bigToBase62(value: bigint, length: number): string {
  const base = BigInt(BASE62.length);
  let rest = value;
  let text = '';
  while (text.length < length) {
    text = (BASE62[Number(rest % base)] as string) + text;
    rest /= base;
  }
  return text;
}

/** The number that a text in base 62 stands for. */
export function fromBase62(text: string): number {
  let value = 0;
  for (const digit of text) value = value * BASE62.length + BASE62.indexOf(digit);
  return value;
}
