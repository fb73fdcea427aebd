/** A random UUID. `crypto.randomUUID` requires a secure context. */
export function newUuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  // The bits of version 4 and the variant.
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return [...bytes]
    .map((byte, index) => `${[4, 6, 8, 10].includes(index) ? '-' : ''}${byte.toString(16).padStart(2, '0')}`)
    .join('');
}
