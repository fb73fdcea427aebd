/** What a reply is made of, told as it arrives. */
export type ReplyEvents = {
  onHead: (status: number) => void;
  onBody: (bytes: Buffer) => void;
  /** `closing`: the server will close this connection. */
  onEnd: (closing: boolean) => void;
};

type State = 'head' | 'sized' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailer';

const HEAD_MAX_BYTES = 65_536;
const CR = 0x0d;
const LF = 0x0a;

/**
 * Frames the HTTP/1.1 replies of one keep-alive connection. Written by hand because the driver
 * shares a CPU with the upstream: Node's own client would cost more than some of the targets.
 */
export class ReplyReader {
  private readonly events: ReplyEvents;
  private state: State = 'head';
  private head: Buffer | null = null;
  private missing = 0;
  private closing = false;
  private lineIsEmpty = true;

  constructor(events: ReplyEvents) {
    this.events = events;
  }

  /** Takes bytes as they come. @throws {Error} when they are not an HTTP reply. */
  feed(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) {
      switch (this.state) {
        case 'head':
          rest = this.readHead(rest);
          break;
        case 'sized':
          rest = this.readData(rest);
          if (this.missing === 0) this.finish();
          break;
        case 'chunk-data':
          rest = this.readData(rest);
          if (this.missing === 0) this.state = 'chunk-end';
          break;
        case 'chunk-size':
          rest = this.readChunkSize(rest);
          break;
        case 'chunk-end':
          if (rest[0] === LF) this.state = 'chunk-size';
          rest = rest.subarray(1);
          break;
        case 'trailer':
          rest = this.readTrailer(rest);
          break;
      }
    }
  }

  private readHead(bytes: Buffer): Buffer {
    const all = this.head ? Buffer.concat([this.head, bytes]) : bytes;
    const headBytes = all.indexOf('\r\n\r\n');
    if (headBytes < 0) {
      if (all.length > HEAD_MAX_BYTES) throw new Error('endless reply head');
      this.head = all;
      return all.subarray(all.length);
    }
    this.head = null;
    const text = all.toString('latin1', 0, headBytes);
    const status = Number(text.slice(9, 12));
    if (!text.startsWith('HTTP/1.1 ') || !(status >= 200)) throw new Error('not an HTTP/1.1 reply');
    this.closing = /\r\nconnection: *close/i.test(text);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text)?.[1];
    if (length !== undefined) {
      this.state = 'sized';
      this.missing = Number(length);
    } else if (/\r\ntransfer-encoding: *chunked/i.test(text)) {
      this.state = 'chunk-size';
      this.missing = 0;
    } else {
      throw new Error('a reply of unknown length');
    }
    this.events.onHead(status);
    if (this.state === 'sized' && this.missing === 0) this.finish();
    return all.subarray(headBytes + 4);
  }

  private readData(bytes: Buffer): Buffer {
    const part = bytes.length > this.missing ? bytes.subarray(0, this.missing) : bytes;
    this.missing -= part.length;
    this.events.onBody(part);
    return bytes.subarray(part.length);
  }

  private readChunkSize(bytes: Buffer): Buffer {
    for (let index = 0; index < bytes.length; index++) {
      const byte = bytes[index] as number;
      if (byte === LF) {
        this.state = this.missing === 0 ? 'trailer' : 'chunk-data';
        this.lineIsEmpty = true;
        return bytes.subarray(index + 1);
      }
      if (byte !== CR) this.missing = this.missing * 16 + hexDigit(byte);
    }
    return bytes.subarray(bytes.length);
  }

  private readTrailer(bytes: Buffer): Buffer {
    for (let index = 0; index < bytes.length; index++) {
      const byte = bytes[index];
      if (byte === LF) {
        if (this.lineIsEmpty) {
          this.finish();
          return bytes.subarray(index + 1);
        }
        this.lineIsEmpty = true;
      } else if (byte !== CR) {
        this.lineIsEmpty = false;
      }
    }
    return bytes.subarray(bytes.length);
  }

  private finish(): void {
    this.state = 'head';
    this.events.onEnd(this.closing);
  }
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  if (lower >= 0x61 && lower <= 0x66) return lower - 0x57;
  throw new Error('a chunk size that is not hexadecimal');
}
