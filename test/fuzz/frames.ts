import type { Random } from '../chaos/random.ts';
import { setUp } from '../support/dashboard.ts';
import { CHAT, rawRequest } from '../support/wire/raw-http.ts';
import { converse, type Conversation } from './hostile-client.ts';
import { chance, divided, pick } from './pieces.ts';
import {
  countReplies,
  measured,
  type Target,
  type TargetReport,
  VIOLATIONS_MAX,
  withOwnTarget,
} from './target.ts';

/**
 * Random and hostile WebSocket frames to both live feeds and to `/v1/responses` while calls run: the process
 * survives, memory stays within a bound, a client that breaks the protocol or sends the feed a message is
 * disconnected, and nothing is left.
 */

export type FramesReport = TargetReport & {
  connections: number;
  opened: number;
  /** Why the server closed connections: codes of its close frames. */
  closeCodes: Record<string, number>;
};

const AT_ONCE = 32;
/** The server must close within this time, on a busy machine too. */
const CLOSED_WITHIN_MS = 15_000;
const HEAD_END = '\r\n\r\n';
const CLOSE = 8;

/** `npm run fuzz -- frames`. */
export const run = (random: Random, { ms }: { ms: number }): Promise<FramesReport> =>
  withOwnTarget((target) => fuzzFrames(target, random, ms));

export async function fuzzFrames(target: Target, random: Random, ms: number): Promise<FramesReport> {
  const { cookie } = await setUp(target);
  const counts = { connections: 0, opened: 0, closeCodes: {} as Record<string, number> };
  const endMs = performance.now() + ms;
  const report = await measured(target, async (running) => {
    const go = (): boolean => performance.now() < endMs && running.violations.length < VIOLATIONS_MAX;
    const viewer = async (): Promise<void> => {
      while (go()) {
        const isFeed = !chance(random, 3);
        const mustClose = isFeed && chance(random, 2);
        const opening = isFeed ? handshake(random, target, cookie) : responsesHandshake(target);
        const count = isFeed ? 0 : random.below(40);
        const messages = Array.from({ length: count }, () => responseRequest(random));
        const conversation = session(random, opening, mustClose, messages);
        const { received, isClosedByServer } = await converse(target.port, conversation);
        counts.connections++;
        const head = received.slice(0, received.indexOf(HEAD_END) + HEAD_END.length);
        const isOpened = head.startsWith('HTTP/1.1 101 ');
        countReplies(isOpened ? head : received, running);
        if (!isOpened) continue;
        counts.opened++;
        readFrames(Buffer.from(received.slice(head.length), 'latin1'), counts.closeCodes, running);
        if (mustClose && !isClosedByServer)
          running.violations.push(`a client that sent a message stays connected: ${shown(conversation)}`);
      }
    };
    // So that there is something to see.
    const caller = async (): Promise<void> => {
      const body = '{"model":"s:tokens=30,every=5ms","messages":[],"stream":true}';
      const request = rawRequest([`Authorization: Bearer ${target.key}`, 'Connection: close'], { body });
      while (go()) await converse(target.port, { steps: [request], end: 'wait', patienceMs: 5_000 });
    };
    await Promise.all([...Array.from({ length: AT_ONCE }, viewer), caller(), caller()]);
  });
  return { ...report, ...counts };
}

const SHOWN_BYTES = 300;

/** The steps of a conversation behind its handshake: the beginning of each, in hex. */
function shown({ steps }: Conversation): string {
  return steps
    .map((step) => {
      if (typeof step === 'number') return `${step} ms`;
      const bytes = Buffer.from(step);
      return `${bytes.length} bytes ${bytes.toString('hex', 0, SHOWN_BYTES)}`;
    })
    .join(', ');
}

function handshake(random: Random, { port, key }: Target, cookie: string): Buffer {
  const lines = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13'];
  lines.push(chance(random, 20) ? 'Sec-WebSocket-Key: x' : 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==');
  const query = pick(random, ['', '', '?after=0', '?after=1', '?model=ok', '?nothing=1']);
  if (chance(random, 2)) {
    lines.push(`Origin: http://127.0.0.1:${port}`, `Host: 127.0.0.1:${port}`, `Cookie: ${cookie}`);
    return rawRequest(lines, { start: `GET /api/v1/live${query} HTTP/1.1`, body: '' });
  }
  if (chance(random, 3)) lines.push(`Sec-WebSocket-Protocol: daybook.v1, ${key}`);
  else lines.push(`Authorization: Bearer ${key}`);
  const path = chance(random, 40) ? CHAT : '/v1/live';
  return rawRequest(lines, { start: `GET ${path}${query} HTTP/1.1`, body: '' });
}

const responsesHandshake = ({ key }: Target): Buffer =>
  rawRequest(
    [
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      `Authorization: Bearer ${key}`,
    ],
    { start: 'GET /v1/responses HTTP/1.1', body: '' },
  );

/** A message that requests a response, or nearly so. */
function responseRequest(random: Random): Buffer {
  const model = pick(random, [
    'ok',
    's:tokens=30,every=2ms',
    's:tokens=2000',
    's:end=cut@3',
    's:status=503',
    5,
  ]);
  const message = JSON.stringify({
    type: pick(random, ['response.create', 'response.create', 'response.create', 'response.steer', null]),
    model,
    input: pick(random, ['hi', [], [{ role: 'user', content: 'x'.repeat(random.below(20_000)) }], 7]),
    store: chance(random, 2),
    ...(chance(random, 2) ? { stream_id: pick(random, ['a', 'b', '', `s${random.below(60)}`]) } : {}),
    ...(chance(random, 8) ? { generate: pick(random, [false, true, 1]) } : {}),
    ...(chance(random, 8) ? { previous_response_id: 'resp_1' } : {}),
  });
  const isCut = chance(random, 10);
  return frameBytes(text(isCut ? message.slice(0, random.below(message.length)) : message));
}

type Frame = {
  opcode: number;
  payload: Buffer;
  isFinal?: boolean;
  reserved?: number;
  isMasked?: boolean;
  /** The length that the header claims, and in how many bits. */
  length?: bigint;
  form?: 7 | 16 | 64;
};

function frameBytes({
  opcode,
  payload,
  isFinal = true,
  reserved = 0,
  isMasked = true,
  length = BigInt(payload.length),
  form = payload.length < 126 ? 7 : payload.length < 65_536 ? 16 : 64,
}: Frame): Buffer {
  const head = Buffer.alloc(form === 7 ? 2 : form === 16 ? 4 : 10);
  head[0] = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode;
  head[1] = (isMasked ? 0x80 : 0) | (form === 7 ? Number(length & 0x7fn) : form === 16 ? 126 : 127);
  if (form === 16) head.writeUInt16BE(Number(length & 0xffffn), 2);
  if (form === 64) head.writeBigUInt64BE(BigInt.asUintN(64, length), 2);
  const mask = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);
  const masked = isMasked ? payload.map((byte, index) => byte ^ (mask[index % 4] as number)) : payload;
  return Buffer.concat([head, ...(isMasked ? [mask] : []), masked]);
}

const text = (content: string): Frame => ({ opcode: 1, payload: Buffer.from(content) });
const times = (count: number, frame: (index: number) => Frame): Buffer[] =>
  Array.from({ length: count }, (_, index) => frameBytes(frame(index)));

/** A handshake and frames behind it. Those that must close end with a message, which the feed never takes. */
function session(
  random: Random,
  opening: Buffer,
  mustClose: boolean,
  messages: readonly Buffer[],
): Conversation {
  const pause = pick(random, [0, 1, 20]);
  const frames = Array.from({ length: 1 + random.below(4) }, () => harmlessOrNot(random, mustClose)).flat();
  frames.unshift(...messages);
  if (mustClose) frames.push(frameBytes(text('{}')));
  const bytes = Buffer.concat(frames);
  const steps = chance(random, 4)
    ? [Buffer.concat([opening, bytes])]
    : [opening, pause, ...(bytes.length > 100_000 ? [bytes] : divided(random, bytes))];
  if (mustClose) return { steps, end: 'wait', patienceMs: CLOSED_WITHIN_MS };
  return {
    steps,
    end: pick(random, ['leave', 'reset', 'half-close']),
    patienceMs: pick(random, [1, 100, 1_000]),
    isDeaf: chance(random, 3),
  };
}

const CLOSE_CODES = [0, 999, 1000, 1001, 1004, 1005, 1006, 1015, 2999, 3000, 4000, 4999, 5000, 65_535];
const INVALID_UTF8 = [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]];

/** @param isWhole false: also frames of which the rest never comes. */
function harmlessOrNot(random: Random, isWhole: boolean): Buffer[] {
  const payload = Buffer.alloc(random.below(126), 'x');
  switch (random.below(isWhole ? 11 : 13)) {
    case 0:
      return times(pick(random, [1, 100, 20_000]), () => ({ opcode: 9, payload }));
    case 1:
      return times(pick(random, [1, 100, 20_000]), () => ({ opcode: 10, payload }));
    case 2:
      return times(1, () => ({ opcode: 9, payload: Buffer.alloc(126 + random.below(1_000)) }));
    case 3:
      return times(1, () => ({ opcode: random.below(16), payload, isFinal: chance(random, 2) }));
    case 4:
      return times(1, () => ({ opcode: random.below(16), payload, reserved: 1 + random.below(7) }));
    case 5:
      return times(1, () => ({ opcode: pick(random, [1, 2, 8, 9]), payload, isMasked: false }));
    case 6: {
      // A message in fragments, with control frames between them.
      const count = pick(random, [2, 50, 5_000]);
      return times(count, (index) =>
        index % 3 === 1
          ? { opcode: 9, payload: Buffer.alloc(1) }
          : {
              opcode: index === 0 ? 1 : 0,
              payload: Buffer.alloc(pick(random, [0, 1, 300])),
              isFinal: index === count - 1,
            },
      );
    }
    case 7:
      return times(1, () => ({ opcode: 1, payload: Buffer.from(pick(random, INVALID_UTF8)) }));
    case 8: {
      const code = Buffer.alloc(2);
      code.writeUInt16BE(pick(random, CLOSE_CODES));
      const reason = Buffer.from(chance(random, 3) ? pick(random, INVALID_UTF8) : []);
      return times(1, () => ({
        opcode: CLOSE,
        payload: Buffer.concat([code, reason]).subarray(0, random.below(5)),
      }));
    }
    case 9: {
      const size = pick(random, [0, 100, 1_024, 1_025, 100_000]);
      return times(pick(random, [1, Math.ceil(100_000 / (size + 100))]), () => text('x'.repeat(size)));
    }
    case 10:
      return times(1, () => ({ opcode: 1, payload, form: pick(random, [16, 64]) }));
    case 11:
      return times(1, () => ({
        opcode: pick(random, [1, 2, 9]),
        payload,
        form: 64,
        length: pick(random, [1_000n, 1n << 31n, 1n << 53n, 1n << 63n, (1n << 64n) - 1n]),
      }));
    default:
      return [Buffer.from(Array.from({ length: random.below(200) }, () => random.below(256)))];
  }
}

/** Checks what the server sent: whole messages and control frames without masks, and valid close codes. */
function readFrames(bytes: Buffer, closeCodes: Record<string, number>, report: TargetReport): void {
  for (let at = 0; at + 2 <= bytes.length;) {
    const first = bytes[at] as number;
    const second = bytes[at + 1] as number;
    const opcode = first & 0x0f;
    if ((first & 0x70) !== 0 || (second & 0x80) !== 0 || ![1, CLOSE, 9, 10].includes(opcode)) {
      report.violations.push(`not a frame of a server: ${bytes.toString('hex', at, at + 20)}`);
      return;
    }
    const form = second & 0x7f;
    const head = form === 126 ? 4 : form === 127 ? 10 : 2;
    // The rest was not kept.
    if (at + head > bytes.length) return;
    const length =
      form === 126 ? bytes.readUInt16BE(at + 2) : form === 127 ? Number(bytes.readBigUInt64BE(at + 2)) : form;
    if (opcode === CLOSE && at + 4 <= bytes.length) {
      const code = length < 2 ? 'none' : String(bytes.readUInt16BE(at + 2));
      closeCodes[code] = (closeCodes[code] ?? 0) + 1;
    }
    at += head + length;
  }
}
