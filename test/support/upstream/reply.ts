import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { errorReply, fillerHeaders, ownHeaders } from './heads.ts';
import type { Attempt } from './ledger.ts';
import { plainPart, type Part, type Subject } from './parts.ts';
import type { Script, Where } from './script.ts';
import { shapeOf } from './shapes.ts';
import { seededRandom } from './split.ts';

/** What one script answers: everything but the timing and the way it ends. */
export type Reply = {
  status: number;
  headers: [name: string, value: string][];
  framing: 'none' | 'chunked' | 'length' | 'close';
  /** What Content-Length says; infinite where there is absent. */
  declaredBytes: number;
  writes: Iterable<Write>;
};

/** Bytes that are sent together, and the parts that have gone out with them. */
export type Write = { head: Buffer; fillBytes: number; tail: Buffer; parts: Part[] };

const GARBAGE_BYTES = 512;
const NOTHING = Buffer.alloc(0);

/** What this script answers to this attempt. `credential` is quoted by a 401. */
export function composeReply(
  script: Script,
  attempt: Attempt,
  subject: Subject,
  credential: string | null,
): Reply {
  const source = sourceOf(script, attempt, subject, credential);
  const framing =
    source.framing ?? framingOf(script, attempt.sse || shapeOf(attempt.path).bytes !== undefined);
  const proper = script.end.how === 'stop' || script.end.how === 'error';
  const planned = (): Iterable<Write> => joinWrites(script, upTo(source.parts(), script, attempt));
  // Content-Length has to be known before the first byte, so the same parts are made twice. A body
  // that ends properly announces what it sends, one that is torn off what it would have sent.
  const announced = proper ? planned : (): Iterable<Write> => joinWrites(script, source.parts());
  const declaredBytes = framing === 'length' ? Math.max(0, lengthOf(announced()) + script.length) : Infinity;
  return {
    status: script.status,
    framing,
    declaredBytes,
    writes: planned(),
    headers: [
      ...ownHeaders(attempt.attempt),
      ...source.headers,
      ...headerIf(script.encoding !== 'identity', 'content-encoding', script.encoding),
      ...headerIf(framing === 'chunked', 'transfer-encoding', 'chunked'),
      ...headerIf(framing === 'length', 'content-length', String(declaredBytes)),
      ...headerIf(script.connection === 'close' || framing === 'close', 'connection', 'close'),
      ...fillerHeaders(script.headers),
    ],
  };
}

type Source = {
  headers: [name: string, value: string][];
  framing?: 'none' | 'length';
  parts(): Iterable<Part>;
};

function sourceOf(script: Script, attempt: Attempt, subject: Subject, credential: string | null): Source {
  if (script.status < 200 || script.status >= 300) {
    const { headers, body } = errorReply(script, credential, shapeOf(attempt.path).errorJson);
    const bodiless = script.status < 200 || script.status === 304;
    return { headers, framing: bodiless ? 'none' : 'length', parts: () => [plainPart(body)] };
  }
  const headers: [string, string][] = attempt.sse
    ? [
        ['content-type', 'text/event-stream; charset=utf-8'],
        ['cache-control', 'no-cache'],
      ]
    : [['content-type', shapeOf(attempt.path).bytes ?? 'application/json']];
  if (script.garbage === 'body') return { headers, parts: () => [plainPart(garbage(script.seed))] };
  return {
    headers,
    parts: () =>
      attempt.sse ? shapeOf(attempt.path).sse(script, subject) : shapeOf(attempt.path).json(script, subject),
  };
}

function framingOf(script: Script, isStreamed: boolean): 'chunked' | 'length' | 'close' {
  if (script.length !== 0) return 'length';
  if (script.framing !== 'auto') return script.framing;
  // A JSON body that is kept waiting by blanks can't have known its length.
  return isStreamed || script.end.how === 'comments' ? 'chunked' : 'length';
}

/** The parts before the place where the script ends, and the error if that is how it ends. */
function* upTo(parts: Iterable<Part>, script: Script, { path, sse }: Attempt): Generator<Part> {
  const { how, where } = script.end;
  if (how === 'error' && !sse) {
    yield shapeOf(path).error(script, sse);
    return;
  }
  let tokens = 0;
  for (const part of parts) {
    if (isReached(where, part, tokens)) break;
    yield part;
    if (part.kind === 'token') tokens += 1;
  }
  if (how === 'error') yield shapeOf(path).error(script, sse);
}

/** Whether the ending comes before this part, the first `tokens` tokens having gone out. */
function isReached(where: Where, next: Part, tokens: number): boolean {
  switch (where) {
    case 'head':
    case 'body':
      return true;
    case 'finish':
      return next.kind === 'usage' || next.kind === 'done';
    case 'usage':
      return next.kind === 'done';
    case 'done':
      return false;
    default:
      return next.kind !== 'opening' && tokens >= where;
  }
}

const COMPRESS: Record<Script['encoding'], ((bytes: Buffer) => Buffer) | null> = {
  identity: null,
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};

/** Puts the parts that share a write together; a compressed body is one write. */
function* joinWrites(script: Script, parts: Iterable<Part>): Generator<Write> {
  const compress = COMPRESS[script.encoding];
  const most = compress === null ? script.batch : Infinity;
  let joined: Part[] = [];
  for (const part of parts) {
    joined.push(part);
    if (joined.length < most) continue;
    yield writeOf(joined);
    joined = [];
  }
  if (compress !== null)
    yield { head: compress(bytesOf(joined)), fillBytes: 0, tail: NOTHING, parts: joined };
  else if (joined.length > 0) yield writeOf(joined);
}

function writeOf(parts: Part[]): Write {
  const [only] = parts;
  if (only && parts.length === 1 && only.fillBytes > 0) {
    return { head: only.head, fillBytes: only.fillBytes, tail: only.tail, parts };
  }
  return { head: bytesOf(parts), fillBytes: 0, tail: NOTHING, parts };
}

function bytesOf(parts: Part[]): Buffer {
  return Buffer.concat(parts.flatMap((part) => [part.head, Buffer.alloc(part.fillBytes, 'f'), part.tail]));
}

function lengthOf(writes: Iterable<Write>): number {
  let bytes = 0;
  for (const write of writes) bytes += write.head.length + write.fillBytes + write.tail.length;
  return bytes;
}

/** Bytes that are neither UTF-8, nor JSON, nor SSE, the same for the same seed. */
function garbage(seed: number): Buffer {
  const random = seededRandom(seed);
  return Buffer.from(Array.from({ length: GARBAGE_BYTES }, () => Math.floor(random() * 256)));
}

function headerIf(condition: boolean, name: string, value: string): [string, string][] {
  return condition ? [[name, value]] : [];
}
