import { expect, test } from 'vitest';
import { MEDIA_HEAD_BYTES, MEDIA_TAIL_BYTES } from '#server/media/bounds.ts';
import { mediaDuration } from '#server/media/duration.ts';
import { MediaProbe } from '#server/media/media-probe.ts';
import { wavOf } from '../../support/wire/media.ts';

/** The length of a recording by its headers, written here as their specifications have them. */

const sampleOf = (bytes: Buffer, size = bytes.length) => ({
  head: bytes.subarray(0, MEDIA_HEAD_BYTES),
  tail: bytes.subarray(Math.max(0, bytes.length - MEDIA_TAIL_BYTES)),
  size,
});

/** MPEG 1, layer III, 128 kbit/s, 44.1 kHz, stereo. */
const MP3_FRAME = [0xff, 0xfb, 0x90, 0x00];
function mp3(bytes: number, more: (head: Buffer) => void = () => {}, tag = 0): Buffer {
  const file = Buffer.alloc(tag + bytes);
  if (tag > 0) file.write('ID3', 0);
  if (tag > 0) Buffer.from([4, 0, 0, 0, 0, (tag - 10) >> 7, (tag - 10) & 0x7f]).copy(file, 3);
  Buffer.from(MP3_FRAME).copy(file, tag);
  more(file.subarray(tag));
  return file;
}
function flac(samples: number, rate: number): Buffer {
  const file = Buffer.alloc(1_000);
  file.write('fLaC', 0);
  file.writeUIntBE(rate << 4, 18, 3);
  file.writeUInt32BE(samples, 22);
  return file;
}
function ogg(position: bigint, skip: number): Buffer {
  const file = Buffer.alloc(200_000);
  file.write('OggS', 0);
  file.write('OpusHead', 28);
  file.writeUInt16LE(skip, 28 + 10);
  file.write('OggS', 199_000);
  file.writeBigInt64LE(position, 199_006);
  return file;
}
function mp4(at: number, scale: number, duration: number): Buffer {
  const file = Buffer.alloc(300_000);
  file.write('ftypM4A ', 4);
  file.write('mvhd', at);
  file.writeUInt32BE(scale, at + 16);
  file.writeUInt32BE(duration, at + 20);
  return file;
}
function webm(ms: number): Buffer {
  const file = Buffer.alloc(500);
  file.writeUInt32BE(0x1a45dfa3, 0);
  Buffer.from([0x2a, 0xd7, 0xb1, 0x83, 0x0f, 0x42, 0x40, 0x44, 0x89, 0x88]).copy(file, 60);
  file.writeDoubleBE(ms, 70);
  return file;
}

test.each<[string, Buffer, number]>([
  ['WAV by its bytes a second', wavOf(12.5), 12_500],
  ['WAV of unknown length by its size', wavOf(2).fill(0xff, 40, 44), 2_000],
  ['MP3 at a constant bit rate', mp3(160_000), 10_000],
  ['MP3 behind a tag', mp3(160_000, undefined, 1_000), 10_000],
  [
    'MP3 with the number of its frames',
    mp3(9_000, (head) => {
      head.write('Xing', 36);
      head.writeUInt32BE(1, 40);
      head.writeUInt32BE(383, 44);
    }),
    Math.ceil((383 * 1_152_000) / 44_100),
  ],
  ['FLAC by its samples', flac(441_000, 44_100), 10_000],
  ['Opus by its last page', ogg(480_312n, 312), 10_000],
  ['MP4 with its header at the beginning', mp4(40, 1_000, 7_250), 7_250],
  ['MP4 with its header at the end', mp4(290_000, 600, 4_350), 7_250],
  ['WebM with a duration', webm(3_210.5), 3_211],
  ['another file by the usual bit rate of speech', Buffer.alloc(80_000, 'x'), 10_000],
  ['a header that ends early', Buffer.from('RIFF____WAVEfmt '), 2],
  ['nothing', Buffer.alloc(0), 0],
])('%s', (_, bytes, ms) => {
  expect(mediaDuration(sampleOf(bytes))).toBe(ms);
});

test('a length above a day is not believed', () => {
  expect(mediaDuration(sampleOf(mp4(40, 1, 2 ** 31)))).toBe(Math.ceil((300_000 * 1_000) / 8_000));
});

test.each([17, 4_096, 70_000, 1_000_000])('is the same in pieces of %i bytes', (size) => {
  for (const bytes of [wavOf(12.5, 8_000), ogg(480_312n, 312), mp4(290_000, 600, 4_350)]) {
    const probe = new MediaProbe();
    for (let at = 0; at < bytes.length; at += size) probe.push(bytes.subarray(at, at + size));
    expect(probe.durationMs()).toBe(mediaDuration(sampleOf(bytes)));
  }
});
