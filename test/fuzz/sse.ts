import { setImmediate as nextTurn } from 'node:timers/promises';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import { Redactor } from '#server/wire/redactor.ts';
import type { SseReader } from '#server/wire/sse.ts';
import type { Random } from '../chaos/random.ts';
import { CANARY, canaryLeaks, streamBody } from './replies.ts';
import { divided, mutated, pick } from './pieces.ts';

/**
 * Random streams through every reader: none throws, the result doesn't depend on the chunks, counts stay
 * within bounds, and no credential leaves.
 */

const REDACTOR = new Redactor([CANARY], ['upstream.internal.example']);
const READERS: Record<string, () => SseReader> = {
  chat: () => new ChatSse(true, REDACTOR),
  responses: () => new ResponsesSse(REDACTOR),
  messages: () => new NativeSse(REDACTOR),
  translated: () => new MessageSse(1, true, REDACTOR),
};
const ROUNDS_PER_TURN = 20;
const VIOLATIONS_MAX = 20;

export type SseReport = { streams: number; bytes: number; violations: string[] };

/** `npm run fuzz -- sse`. */
export async function run(random: Random, { ms }: { ms: number }): Promise<SseReport> {
  const report: SseReport = { streams: 0, bytes: 0, violations: [] };
  const endMs = performance.now() + ms;
  while (performance.now() < endMs && report.violations.length < VIOLATIONS_MAX) {
    for (let round = 0; round < ROUNDS_PER_TURN; round++) check(random, report);
    await nextTurn();
  }
  return report;
}

function check(random: Random, report: SseReport): void {
  const bytes = mutated(random, Buffer.from(streamBody(random)), 2);
  const name = pick(random, Object.keys(READERS));
  report.streams++;
  report.bytes += bytes.length;
  const fail = (what: string): void =>
    void report.violations.push(`${name}: ${what}: ${bytes.toString('base64').slice(0, 4_000)}`);
  try {
    const whole = read(name, [bytes]);
    const parts = read(name, divided(random, bytes));
    if (JSON.stringify(whole) !== JSON.stringify(parts)) fail('the result depends on the chunks');
    if (canaryLeaks(whole.text)) fail('a credential leaves');
    const { input = 0, output = 0 } = whole.usage ?? {};
    if (!(input <= TOKENS_MAX && output <= TOKENS_MAX)) fail('usage exceeds its column');
  } catch (error) {
    fail(`it throws ${String(error)}`);
  }
}

function read(name: string, chunks: readonly Buffer[]): Pick<SseReader, 'usage'> & { text: string } {
  const reader = (READERS[name] as () => SseReader)();
  const out = [...chunks.map((chunk) => reader.push(chunk)), reader.flush()];
  const { usage, promptUsage, countedTokens, dataEvents, complete, failed, insideEvent } = reader;
  const text = Buffer.concat(out.filter((each) => each !== null)).toString();
  return { text, usage, ...{ promptUsage, countedTokens, dataEvents, complete, failed, insideEvent } };
}
