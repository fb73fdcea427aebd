import { randomFillSync, randomInt } from 'node:crypto';

const ENTROPY_BYTES = 8192;
const entropy = Buffer.allocUnsafe(ENTROPY_BYTES);
let entropyUsed = ENTROPY_BYTES;

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const PUBLIC_ID_LENGTH = 8;

/**
 * A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits, so that ids sort by
 * the time they were made. Randomness is drawn in blocks because one system call per request
 * would cost more than the rest of the id.
 */
export function uuidv7(nowMs: number = Date.now()): string {
  if (entropyUsed + 10 > ENTROPY_BYTES) {
    randomFillSync(entropy);
    entropyUsed = 0;
  }
  const at = entropyUsed;
  entropyUsed += 10;
  const time = nowMs.toString(16).padStart(12, '0');
  const byte = (offset: number): string => HEX[entropy[at + offset] as number] as string;
  const version = HEX[((entropy[at] as number) & 0x0f) | 0x70] as string;
  const variant = HEX[((entropy[at + 2] as number) & 0x3f) | 0x80] as string;
  return `${time.slice(0, 8)}-${time.slice(8)}-${version}${byte(1)}-${variant}${byte(3)}-${byte(4)}${byte(5)}${byte(6)}${byte(7)}${byte(8)}${byte(9)}`;
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
