import { createServer, type Socket } from 'node:net';
import { monotonicUs } from '../machine/clock.ts';
import { createDelayLine, type DelayLine } from './delay-line.ts';
import { writeMark } from './marks.ts';
import { MODELS } from './models.ts';
import { buildReply, type JsonReply, type Reply, type SseReply } from './replies.ts';
import { createRequestReader, type MockRequest } from './requests.ts';

/**
 * The mock upstream: an OpenAI-compatible provider on bare TCP, as cheap as Node allows, so that
 * it is not what the bench measures. It checks no key and never fails; a wrong request gets a 400,
 * which the driver counts as an error.
 *
 * As a program: `node bench/upstream/main.ts PORT`.
 */

/** A request that waits for its delay, or a stream on its way. */
type Call = {
  socket: Socket;
  reply: Reply;
  asksUsage: boolean;
  receivedUs: number;
  chunksLeft: number;
  busy: boolean;
};

const BACKLOG = 4096;

/** A peer that reads this little is not flowing; its connection is cut and shows as an error. */
const UNREAD_MAX_BYTES = 1 << 20;

const UNKNOWN_MODEL = Buffer.from(
  'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 37\r\n\r\n' +
    '{"error":{"message":"unknown model"}}',
);

const replies = new Map(Object.entries(MODELS).map(([name, model]) => [name, buildReply(name, model)]));
const starts = new Map<number, DelayLine<Call>>();
const steps = new Map<number, DelayLine<Call>>();

function lineOf(
  lines: Map<number, DelayLine<Call>>,
  delayMs: number,
  onDue: (call: Call, dueMs: number) => void,
): DelayLine<Call> {
  const line = lines.get(delayMs) ?? createDelayLine(delayMs, onDue);
  lines.set(delayMs, line);
  return line;
}

function answer(call: Call): void {
  if (call.socket.destroyed) return;
  if (call.reply.kind === 'json') sendJson(call, call.reply);
  else startSse(call, call.reply);
}

function sendJson(call: Call, reply: JsonReply): void {
  call.busy = false;
  call.socket.write(stamped(reply.bytes, reply.heldAt, monotonicUs() - call.receivedUs));
}

function startSse(call: Call, reply: SseReply): void {
  call.chunksLeft = reply.chunks;
  call.socket.write(stamped(reply.head, reply.heldAt, monotonicUs() - call.receivedUs));
  lineOf(steps, reply.intervalMs, sendChunk).push(call, performance.now());
}

function sendChunk(call: Call, dueMs: number): void {
  const { socket, reply } = call;
  if (socket.destroyed || reply.kind !== 'sse') return;
  if (socket.writableLength > UNREAD_MAX_BYTES) {
    socket.destroy();
    return;
  }
  socket.write(stamped(reply.chunk, reply.sentAt, monotonicUs()));
  if (--call.chunksLeft > 0) {
    lineOf(steps, reply.intervalMs, sendChunk).push(call, dueMs);
  } else {
    call.busy = false;
    socket.write(call.asksUsage ? reply.tailWithUsage : reply.tail);
  }
}

function stamped(template: Buffer, at: number, us: number): Buffer {
  const bytes = Buffer.allocUnsafe(template.length);
  template.copy(bytes);
  writeMark(bytes, at, us);
  return bytes;
}

function serve(socket: Socket): void {
  let call: Call | null = null;
  const begin = ({ model, asksUsage }: MockRequest): void => {
    const receivedUs = monotonicUs();
    if (call?.busy) throw new Error('a request before the reply to the last one');
    const reply = replies.get(model);
    if (!reply) {
      socket.write(UNKNOWN_MODEL);
      return;
    }
    call = { socket, reply, asksUsage, receivedUs, chunksLeft: 0, busy: true };
    if (reply.delayMs === 0) answer(call);
    else lineOf(starts, reply.delayMs, answer).push(call, performance.now());
  };
  const reader = createRequestReader(begin);
  socket.on('data', (bytes) => {
    try {
      if (typeof bytes !== 'string') reader.feed(bytes);
    } catch (error) {
      console.error(String(error));
      socket.destroy();
    }
  });
  socket.on('error', () => socket.destroy());
}

createServer({ noDelay: true, highWaterMark: 65_536 }, serve).listen(
  Number(process.argv[2]),
  '127.0.0.1',
  BACKLOG,
);
