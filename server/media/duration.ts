import { MEDIA_BYTES_PER_SECOND_TYPICAL, MEDIA_MS_BELIEVED_MAX } from '#server/media/bounds.ts';

/**
 * The length of a recording by its headers: WAV, FLAC, MP3, Ogg (Opus and Vorbis), MP4 and WebM. Only its
 * beginning and its end are looked at, so that a long one streams through. Pure.
 */

/** A recording, as far as it was kept. */
export type MediaSample = {
  head: Buffer;
  /** The last bytes. They overlap with the head where the recording is short. */
  tail: Buffer;
  size: number;
};

/** In milliseconds. By the usual bit rate where its format isn't known, or its header states no length. */
export function mediaDuration(sample: MediaSample): number {
  const { size } = sample;
  const stated = size === 0 ? 0 : statedDuration(sample);
  const isBelieved = stated !== null && stated >= 0 && stated <= MEDIA_MS_BELIEVED_MAX;
  if (isBelieved) return Math.ceil(stated);
  return Math.min(Math.ceil((size * 1_000) / MEDIA_BYTES_PER_SECOND_TYPICAL), MEDIA_MS_BELIEVED_MAX);
}

function statedDuration(sample: MediaSample): number | null {
  const { head } = sample;
  try {
    if (isText(head, 0, 'RIFF') && isText(head, 8, 'WAVE')) return wav(sample);
    if (isText(head, 0, 'fLaC')) return flac(head);
    if (isText(head, 0, 'OggS')) return ogg(sample);
    if (isText(head, 4, 'ftyp')) return mp4(sample);
    if (head.length > 4 && head.readUInt32BE(0) === EBML) return webm(head);
    return mp3(sample);
  } catch (error) {
    // The header ends before a value that it announces.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

const isText = (bytes: Buffer, at: number, text: string): boolean =>
  bytes.toString('latin1', at, at + text.length) === text;

/** The data by the bytes of a second. A recorder that doesn't know its length in advance states none. */
function wav({ head, size }: MediaSample): number | null {
  let rate = 0;
  for (let at = 12; at + 8 <= head.length;) {
    const length = head.readUInt32LE(at + 4);
    if (isText(head, at, 'fmt ')) rate = head.readUInt32LE(at + 16);
    if (isText(head, at, 'data')) {
      const data = Math.min(length, size - at - 8);
      return rate > 0 ? (data * 1_000) / rate : null;
    }
    at += 8 + length + (length % 2);
  }
  return null;
}

/** The samples and their rate in STREAMINFO, which is the first block. */
function flac(head: Buffer): number | null {
  const rate = head.readUIntBE(18, 3) >>> 4;
  const samples = (head.readUInt8(21) & 0x0f) * 2 ** 32 + head.readUInt32BE(22);
  return rate > 0 && samples > 0 ? (samples * 1_000) / rate : null;
}

const OGG_HEADER_BYTES = 27;
const OPUS_RATE = 48_000;

/** The position of the last page, in samples. */
function ogg({ head, tail }: MediaSample): number | null {
  const last = tail.lastIndexOf('OggS');
  if (last < 0 || last + OGG_HEADER_BYTES > tail.length) return null;
  const position = Number(tail.readBigInt64LE(last + 6));
  const opus = head.indexOf('OpusHead', 0, 'latin1');
  if (opus >= 0) return ((position - head.readUInt16LE(opus + 10)) * 1_000) / OPUS_RATE;
  const vorbis = head.indexOf('\x01vorbis', 0, 'latin1');
  const rate = vorbis < 0 ? 0 : head.readUInt32LE(vorbis + 12);
  return rate > 0 ? (position * 1_000) / rate : null;
}

/** The movie header, which is at the beginning or the end. */
function mp4({ head, tail }: MediaSample): number | null {
  for (const part of [head, tail]) {
    const at = part.indexOf('mvhd', 0, 'latin1');
    if (at < 0) continue;
    const isLong = part.readUInt8(at + 4) === 1;
    const scale = part.readUInt32BE(at + (isLong ? 24 : 16));
    const duration = isLong ? Number(part.readBigUInt64BE(at + 28)) : part.readUInt32BE(at + 20);
    return scale > 0 && duration > 0 ? (duration * 1_000) / scale : null;
  }
  return null;
}

const EBML = 0x1a45dfa3;
const EBML_SCALE = Buffer.from([0x2a, 0xd7, 0xb1]);
const EBML_DURATION = Buffer.from([0x44, 0x89]);
const NANOSECONDS_PER_MS = 1_000_000;

/** The duration in units of the scale. What browsers record has none. */
function webm(head: Buffer): number | null {
  const scaleAt = head.indexOf(EBML_SCALE);
  const scale =
    scaleAt < 0
      ? NANOSECONDS_PER_MS
      : head.readUIntBE(scaleAt + 4, Math.min(head.readUInt8(scaleAt + 3) & 0x7f || 1, 6));
  const at = head.indexOf(EBML_DURATION);
  if (at < 0) return null;
  const isDouble = head.readUInt8(at + 2) === 0x88;
  if (!isDouble && head.readUInt8(at + 2) !== 0x84) return null;
  return ((isDouble ? head.readDoubleBE(at + 3) : head.readFloatBE(at + 3)) * scale) / NANOSECONDS_PER_MS;
}

const ID3_HEADER_BYTES = 10;
/** In kbit/s, by the index in a frame's header, for layer III of MPEG 1 and of MPEG 2. */
const MP3_RATES = [
  [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const;
const MP3_SAMPLE_RATES = [44_100, 48_000, 32_000] as const;

type Mp3Frame = { isMpeg1: boolean; kbits: number; sampleRate: number; isMono: boolean };

/** The frames that the first one counts or, at a constant bit rate, the bytes. */
function mp3({ head, size }: MediaSample): number | null {
  const tag = isText(head, 0, 'ID3') ? ID3_HEADER_BYTES + synchsafe(head, 6) : 0;
  // A cover picture may be longer than the part that was kept.
  if (tag >= head.length - 4) return null;
  const frame = frameAt(head, tag);
  if (frame === null) return null;
  const { isMpeg1, kbits, sampleRate, isMono } = frame;
  const samples = isMpeg1 ? 1_152 : 576;
  const info = tag + 4 + (isMpeg1 ? (isMono ? 17 : 32) : isMono ? 9 : 17);
  const hasInfo = isText(head, info, 'Xing') || isText(head, info, 'Info');
  if (hasInfo && (head.readUInt32BE(info + 4) & 1) === 1)
    return (head.readUInt32BE(info + 8) * samples * 1_000) / sampleRate;
  const vbri = tag + 36;
  if (isText(head, vbri, 'VBRI')) return (head.readUInt32BE(vbri + 14) * samples * 1_000) / sampleRate;
  return ((size - tag) * 8) / kbits;
}

function frameAt(head: Buffer, at: number): Mp3Frame | null {
  const bits = head.readUInt32BE(at);
  const version = (bits >>> 19) & 3;
  const isLayer3 = ((bits >>> 17) & 3) === 1;
  const sampleRate = MP3_SAMPLE_RATES[(bits >>> 10) & 3];
  if (bits >>> 21 !== 0x7ff || version === 1 || !isLayer3 || sampleRate === undefined) return null;
  const isMpeg1 = version === 3;
  const kbits = MP3_RATES[isMpeg1 ? 0 : 1][(bits >>> 12) & 15] ?? 0;
  if (kbits === 0) return null;
  const divisor = isMpeg1 ? 1 : version === 2 ? 2 : 4;
  return { isMpeg1, kbits, sampleRate: sampleRate / divisor, isMono: ((bits >>> 6) & 3) === 3 };
}

/** A number in bytes of seven bits. */
const synchsafe = (bytes: Buffer, at: number): number =>
  [0, 1, 2, 3].reduce((sum, index) => sum * 128 + (bytes.readUInt8(at + index) & 0x7f), 0);
