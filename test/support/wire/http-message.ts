/**
 * Reads one HTTP/1.1 message, request or reply, from bytes that are received in any pieces. It is our own
 * so that both sides of a test see the wire itself: node:http hides framing, repeated headers and
 * broken endings, which are exactly what the tests are about.
 */
export type Head = { startLine: string; headers: [name: string, value: string][] };

/** How the end of a body is known. */
export type Framing =
  | { kind: 'none' }
  | { kind: 'length'; bytes: number }
  | { kind: 'chunked' }
  | { kind: 'until_close' };

export type MessageSink = {
  /** Called once; its result says how the body is framed. */
  head(head: Head): Framing;
  /** Called with each piece of the body, without framing. */
  body(bytes: Buffer): void;
};

export type MessageReader = {
  /**
   * Takes bytes as they are received and returns what followed the end of the message (nothing before it).
   * @throws {MalformedMessage} when the bytes are not HTTP.
   */
  push(bytes: Buffer): Buffer;
  /** Tells that no more bytes will come, which may be the proper end of the message. */
  closed(): void;
  readonly complete: boolean;
};

/** The bytes are not an HTTP/1.1 message. */
export class MalformedMessage extends Error {}

const NOTHING = Buffer.alloc(0);
const LF = 0x0a;
const HEAD_BYTES_MAX = 1024 ** 2;
const LINE_BYTES_MAX = 16 * 1024;

type State =
  | 'head'
  | 'length'
  | 'until_close'
  | 'chunk_size'
  | 'chunk_data'
  | 'chunk_end'
  | 'trailer'
  | 'complete';

/** Reads one message and reports the sink. */
export function readMessage(sink: MessageSink): MessageReader {
  let state: State = 'head';
  let pending: Buffer = NOTHING;
  let bytesLeft = 0;

  /** One line without its end, or null while it is not whole. */
  function takeLine(): string | null {
    const at = pending.indexOf(LF);
    if (at < 0) {
      if (pending.length > LINE_BYTES_MAX) throw new MalformedMessage('a line of the framing does not end');
      return null;
    }
    const line = pending.toString('latin1', 0, at).replace(/\r$/, '');
    pending = pending.subarray(at + 1);
    return line;
  }

  /** Passes body bytes on; true when `bytesLeft` came down to nothing. */
  function takeBody(): boolean {
    const taken = pending.subarray(0, bytesLeft);
    pending = pending.subarray(taken.length);
    bytesLeft -= taken.length;
    if (taken.length > 0) sink.body(taken);
    return bytesLeft === 0;
  }

  function begin(framing: Framing): State {
    if (framing.kind === 'none') return 'complete';
    if (framing.kind === 'chunked') return 'chunk_size';
    bytesLeft = framing.kind === 'length' ? framing.bytes : Infinity;
    if (framing.kind === 'until_close') return 'until_close';
    return bytesLeft === 0 ? 'complete' : 'length';
  }

  /** The next state, or null when more bytes are needed. */
  function step(): State | null {
    switch (state) {
      case 'head': {
        const at = pending.indexOf('\r\n\r\n');
        if (at < 0) {
          if (pending.length > HEAD_BYTES_MAX) throw new MalformedMessage('the head does not end');
          return null;
        }
        const head = parseHead(pending.toString('latin1', 0, at));
        pending = pending.subarray(at + 4);
        return begin(sink.head(head));
      }
      case 'length':
        return takeBody() ? 'complete' : null;
      case 'until_close':
        takeBody();
        break;
      case 'chunk_size': {
        const line = takeLine();
        if (line === null) return null;
        const digits = /^[0-9a-f]{1,12}(?=;|\s*$)/i.exec(line)?.[0];
        if (digits === undefined) throw new MalformedMessage(`"${line}" is no chunk size`);
        bytesLeft = Number.parseInt(digits, 16);
        return bytesLeft === 0 ? 'trailer' : 'chunk_data';
      }
      case 'chunk_data':
        return takeBody() ? 'chunk_end' : null;
      case 'chunk_end': {
        const line = takeLine();
        if (line === null) return null;
        if (line !== '') throw new MalformedMessage('a chunk is longer than its size');
        return 'chunk_size';
      }
      case 'trailer': {
        const line = takeLine();
        if (line === null) return null;
        return line === '' ? 'complete' : 'trailer';
      }
      case 'complete':
        break;
    }
    return null;
  }

  return {
    get complete() {
      return state === 'complete';
    },
    push(bytes) {
      pending = pending.length === 0 ? bytes : Buffer.concat([pending, bytes]);
      for (let next = step(); next !== null; next = step()) state = next;
      if (state !== 'complete') return NOTHING;
      const after = pending;
      pending = NOTHING;
      return after;
    },
    closed() {
      if (state === 'until_close') state = 'complete';
    },
  };
}

function parseHead(text: string): Head {
  const [startLine = '', ...lines] = text.split('\r\n');
  if (!/^HTTP\/1\.[01] \d{3}( |$)|^[A-Z]+ \S+ HTTP\/1\.[01]$/.test(startLine)) {
    throw new MalformedMessage(`"${startLine.slice(0, 80)}" is no start line`);
  }
  return {
    startLine,
    headers: lines.map((line) => {
      const colon = line.indexOf(':');
      if (colon < 1) throw new MalformedMessage(`"${line.slice(0, 80)}" is no header`);
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  };
}

/** The first value of a header, whatever the case of its name; null when there is absent. */
export function headerOf(head: Pick<Head, 'headers'>, name: string): string | null {
  return head.headers.find(([each]) => each.toLowerCase() === name)?.[1] ?? null;
}

/** How a request's body is framed. */
export function requestFraming(head: Head): Framing {
  return chunkedOrLength(head) ?? { kind: 'none' };
}

/** How the body of a reply to a request with this method is framed. */
function replyFraming(head: Head, method: string): Framing {
  const status = statusOf(head);
  if (isInterim(head) || method === 'HEAD' || status === 204 || status === 304) return { kind: 'none' };
  return chunkedOrLength(head) ?? { kind: 'until_close' };
}

/** The status code of a reply's head. */
export function statusOf(head: Head): number {
  return Number(head.startLine.split(' ')[1]);
}

/** Whether another reply to the same request follows this one. */
function isInterim(head: Head): boolean {
  const status = statusOf(head);
  return status < 200 && status !== 101;
}

/** Reads the final reply to a request with this method; interim replies before it are skipped. */
export function readReply(
  method: string,
  sink: { head(head: Head): void; body(bytes: Buffer): void },
): MessageReader {
  const current = { isFinal: false };
  const next = (): MessageReader =>
    readMessage({
      head(head) {
        current.isFinal = !isInterim(head);
        if (current.isFinal) sink.head(head);
        return replyFraming(head, method);
      },
      body: (bytes) => sink.body(bytes),
    });
  let reader = next();
  return {
    get complete() {
      return current.isFinal && reader.complete;
    },
    push(bytes) {
      let rest = reader.push(bytes);
      while (reader.complete && !current.isFinal) {
        reader = next();
        rest = reader.push(rest);
      }
      return rest;
    },
    closed() {
      reader.closed();
    },
  };
}

function chunkedOrLength(head: Head): Framing | null {
  if (headerOf(head, 'transfer-encoding')?.toLowerCase().endsWith('chunked')) return { kind: 'chunked' };
  const length = headerOf(head, 'content-length');
  if (length === null) return null;
  if (!/^\d{1,15}$/.test(length)) throw new MalformedMessage(`"${length}" is no Content-Length`);
  return { kind: 'length', bytes: Number(length) };
}
