/** Recordings and forms for tests of audio. */

/** A WAV file of silence: 16 bits, one channel. */
export function wavOf(seconds: number, rate = 16_000): Buffer {
  const data = Math.round(seconds * rate) * 2;
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + data, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(rate, 24);
  head.writeUInt32LE(rate * 2, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(data, 40);
  return Buffer.concat([head, Buffer.alloc(data)]);
}

export const BOUNDARY = '----daybook-test';
export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

/** A form of these parts, in their order. A Buffer is a file. */
export function formOf(parts: readonly [name: string, content: string | Buffer][]): Buffer {
  const encoded = parts.flatMap(([name, content]) => {
    const file = typeof content === 'string' ? '' : `; filename="a.wav"\r\nContent-Type: audio/wav`;
    const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n\r\n`;
    return [Buffer.from(head), Buffer.from(content), Buffer.from('\r\n')];
  });
  return Buffer.concat([...encoded, Buffer.from(`--${BOUNDARY}--\r\n`)]);
}
