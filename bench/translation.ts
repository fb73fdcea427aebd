import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHAT_COMPLETIONS, type RelayedRoute } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { CLIENTS } from '#server/protocols/clients.ts';
import type { Conversation } from '#server/protocols/conversation.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import { TranslatedSse } from '#server/protocols/translated-sse.ts';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { Chunks } from '#server/providers/bridge/chunks.ts';
import type { StreamPart } from '#server/providers/bridge/language-model.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import type { ProviderCall } from '#server/providers/provider.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import type { SseReader } from '#server/wire/sse.ts';
import { parseChatCompletion } from '#server/wire/request-parser.ts';
import type { Goal } from './goals.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { median } from './median.ts';
import { figure, table } from './table.ts';

/** What reading a streamed reply costs for each of its chunks, by who reads it. */
export type ChunkCost = {
  stream: string;
  reader: string;
  cpuUs: number | null;
  timesPassthrough: number | null;
};
export type TranslationReport = { chunkCosts: ChunkCost[]; goals: Goal[] };

const FIXTURES = join(import.meta.dirname, '../test/fixtures/anthropic');
/** Streams as they were recorded. */
const STREAMS = ['text', 'thinking', 'tool-call', 'utf8'];
/** A recorded stream has a handful of deltas, and a real one some hundreds. */
const DELTAS_TIMES = 60;
/** Of the readers that make chat completions. */
const TIMES_PASSTHROUGH_MAX = 3;
/** Of translations from one protocol into another, to a passed event of the same upstream. */
const PAIR_TIMES_PASSTHROUGH_MAX = 2;
/** Of the measured seconds of a round, for each reader of each stream. */
const SHARE = 0.1;
const WARMUP_PASSES = 50;
const PASSES_AT_ONCE = 20;

/** @property beside the reader that its cost is compared with. */
type Reading = { stream: string; reader: string; beside: string; chunks: number; pass: () => SseReader };

/**
 * Measures the readers of streamed replies alone: that of the convention itself, through which bytes
 * pass, and those that translate. The same reply is read by all of them, an event at a time, as it comes
 * from a model that writes; what passes is what the translation of the recorded one gave.
 */
export async function benchTranslation(settings: Settings, { signal }: Stage): Promise<TranslationReport> {
  const readings = STREAMS.flatMap((stream) => [...readingsOf(stream), ...pairsOf(stream)]);
  for (const reading of readings) checkWhole(reading);
  const found = new Map(readings.map((reading) => [reading, [] as number[]]));
  for (let round = 0; round < settings.rounds; round++) {
    for (const reading of round % 2 === 0 ? readings : readings.toReversed()) {
      signal.throwIfAborted();
      found.get(reading)?.push(cpuUsPerChunk(reading, settings.secs * SHARE));
      // A signal is taken between two of them.
      await new Promise(setImmediate);
    }
  }
  const chunkCosts = readings.map((reading): ChunkCost => {
    const passing = readings.find(
      ({ stream, reader }) => stream === reading.stream && reader === reading.beside,
    ) as Reading;
    const [own, theirs] = [found.get(reading) ?? [], found.get(passing) ?? []];
    return {
      stream: reading.stream,
      reader: reading.reader,
      cpuUs: median(own),
      timesPassthrough: median(own.map((us, round) => us / (theirs[round] ?? NaN))),
    };
  });
  const goals = [...TRANSLATING, ...PAIRS.map(nameOf)].map((name): Goal => ({
    name: `${name}: CPU for each chunk of the worst stream`,
    measured: Math.max(
      ...chunkCosts
        .filter(({ reader }) => reader === name)
        .map(({ timesPassthrough }) => timesPassthrough ?? Infinity),
    ),
    bound: 'at most',
    limit: TRANSLATING.includes(name) ? TIMES_PASSTHROUGH_MAX : PAIR_TIMES_PASSTHROUGH_MAX,
    unit: '× passthrough',
  }));
  return { chunkCosts, goals };
}

export function renderTranslation({ chunkCosts }: TranslationReport): string {
  const rows = chunkCosts.map(({ stream, reader, cpuUs, timesPassthrough }) => [
    `${stream}, ${reader}`,
    figure(cpuUs),
    figure(timesPassthrough),
  ]);
  return `\nreaders of streamed replies\n${table(['', 'CPU µs/chunk', '× passthrough'], rows)}`;
}

const PASSTHROUGH = 'passthrough';
const TRANSLATING = ['anthropic', 'anthropic native', 'bridge'];

function readingsOf(stream: string): Reading[] {
  const recorded = lengthened(readFileSync(join(FIXTURES, `${stream}.sse`), 'utf8'));
  const call = callOf(CHAT_COMPLETIONS);
  const passed = eventsOf(through(anthropic.sse(call), recorded).toString());
  const parts = passed.flatMap(partsOf);
  const byBytes = (reader: string, events: readonly Buffer[], open: () => SseReader): Reading => ({
    stream,
    reader,
    beside: PASSTHROUGH,
    chunks: events.length,
    pass() {
      const sse = open();
      through(sse, events);
      return sse;
    },
  });
  return [
    byBytes(PASSTHROUGH, passed, () => createOpenai('other').sse(call)),
    byBytes('anthropic', recorded, () => anthropic.sse(call)),
    byBytes('anthropic native', recorded, () => anthropic.sse(callOf('/v1/messages'))),
    {
      stream,
      reader: 'bridge',
      beside: PASSTHROUGH,
      chunks: parts.length,
      pass() {
        const [made, sse] = [
          new Chunks({ id: 'chatcmpl-bench', createdS: 0, model: 'bench' }),
          createOpenai('other').sse(call),
        ];
        for (const part of parts) {
          const text = made.take(part);
          if (text !== '') sse.push(Buffer.from(text));
        }
        return sse;
      },
    },
  ];
}

type Pair = { upstream: Protocol; client: Protocol };
const PAIRS: readonly Pair[] = PROTOCOLS.flatMap((upstream) =>
  PROTOCOLS.filter((client) => client !== upstream).map((client) => ({ upstream, client })),
);
const nameOf = ({ upstream, client }: Pair): string => `${upstream} for ${client}`;

/** The same reply in each protocol, passed to its own clients and translated for those of the others. */
function pairsOf(stream: string): Reading[] {
  const recorded = lengthened(readFileSync(join(FIXTURES, `${stream}.sse`), 'utf8'));
  return PROTOCOLS.flatMap((upstream): Reading[] => {
    const events =
      upstream === 'messages'
        ? recorded
        : eventsOf(through(translated({ upstream: 'messages', client: upstream }), recorded).toString());
    const reading = (reader: string, open: () => SseReader): Reading => ({
      stream,
      reader,
      beside: `${upstream} passed`,
      chunks: events.length,
      pass() {
        const sse = open();
        through(sse, events);
        return sse;
      },
    });
    const own = PAIRS.filter((pair) => pair.upstream === upstream);
    return [
      reading(`${upstream} passed`, () => UPSTREAMS[upstream].sse(callOf(CHAT_COMPLETIONS))),
      ...own.map((pair) => reading(nameOf(pair), () => translated(pair))),
    ];
  });
}

const NOTHING_ASKED: Conversation = {
  turns: [],
  tools: [],
  toolChoice: null,
  parallelToolCalls: null,
  reasoningEffort: null,
  temperature: null,
  topP: null,
  stop: [],
  format: null,
};

function translated({ upstream, client }: Pair): SseReader {
  const options = { model: 'bench', createdS: 0, isStreamed: true, includeUsage: true };
  const writer = CLIENTS[client].writer({ request: {}, conversation: NOTHING_ASKED, ...options });
  const { sse, reader } = UPSTREAMS[upstream];
  return new TranslatedSse(sse(callOf(CHAT_COMPLETIONS)), reader(), writer, () => '');
}

function through(sse: SseReader, events: readonly Buffer[]): Buffer {
  const out: Buffer[] = [];
  for (const event of events) {
    const bytes = sse.push(event);
    if (bytes) out.push(bytes);
  }
  const rest = sse.flush();
  return Buffer.concat(rest ? [...out, rest] : out);
}

const eventsOf = (text: string): Buffer[] =>
  text
    .split(/(?<=\n\n)/)
    .filter((event) => event !== '')
    .map((event) => Buffer.from(event));

/** The same stream with each of its deltas many times. Of the arguments of a call, a string gets longer. */
function lengthened(text: string): Buffer[] {
  return text.split(/(?<=\n\n)/).flatMap((event) => {
    const times = /"(?:text|thinking)_delta"/.test(event) ? DELTAS_TIMES : 1;
    const [, before = '', begun = '', rest = '', behind = ''] = ARGUMENTS.exec(event) ?? [];
    const fragments = [begun, ...Array.from({ length: DELTAS_TIMES }, () => FRAGMENT), rest];
    const events =
      before === ''
        ? Array.from({ length: times }, () => event)
        : fragments.map((fragment) => `${before}${fragment}${behind}`);
    return events.map((each) => Buffer.from(each));
  });
}

/** Arguments with a string, divided behind its first word. */
const ARGUMENTS = /^(.*"partial_json":")(.*\\"Leith)(.*)("\}.*)$/s;
const FRAGMENT = String.raw`, \\\"Oban\\\"`;

type Delta = {
  content?: string;
  reasoning_content?: string;
  tool_calls?: { id?: string; function: { name?: string; arguments: string } }[];
};

/** The parts that a package would have given for an event of the convention. */
function partsOf(event: Buffer): StreamPart[] {
  const data = event.toString().slice('data: '.length).trim();
  if (data === '[DONE]') return [];
  const { choices = [] } = JSON.parse(data) as { choices?: { delta: Delta; finish_reason: string | null }[] };
  return choices.flatMap(({ delta, finish_reason: reason }): StreamPart[] => {
    const call = delta.tool_calls?.[0];
    const usage = { inputTokens: { total: 10 }, outputTokens: { total: 10 } };
    if (reason !== null) return [{ type: 'finish', finishReason: { unified: 'stop', raw: reason }, usage }];
    if (call?.id !== undefined)
      return [{ type: 'tool-input-start', id: 'call', toolName: call.function.name ?? '' }];
    if (call) return [{ type: 'tool-input-delta', id: 'call', delta: call.function.arguments }];
    if (delta.reasoning_content !== undefined)
      return [{ type: 'reasoning-delta', id: '0', delta: delta.reasoning_content }];
    return delta.content !== undefined ? [{ type: 'text-delta', id: '0', delta: delta.content }] : [];
  });
}

function callOf(route: RelayedRoute): ProviderCall {
  const bytes = Buffer.from('{"model":"bench","stream":true,"messages":[{"role":"user","content":"Hi"}]}');
  const asked = parseChatCompletion(bytes);
  if (asked instanceof ApiError) throw asked;
  return {
    route,
    body: { bytes, slab: null },
    parsed: asked,
    model: 'bench',
    tokenLimit: null,
    tokenLimitMember: 'max_tokens',
    redactor: NOTHING_TO_REDACT,
  };
}

/** A reader that gave up would be a fast one. */
function checkWhole({ stream, reader, pass }: Reading): void {
  const { complete, failed } = pass();
  if (!complete || failed) throw new Error(`${reader} does not read ${stream} to its end`);
}

function cpuUsPerChunk({ chunks, pass }: Reading, secs: number): number {
  for (let count = 0; count < WARMUP_PASSES; count++) pass();
  const began = process.cpuUsage();
  let [passes, us] = [0, 0];
  while (us < secs * 1e6) {
    for (let count = 0; count < PASSES_AT_ONCE; count++) pass();
    passes += PASSES_AT_ONCE;
    const { user, system } = process.cpuUsage(began);
    us = user + system;
  }
  return us / (passes * chunks);
}
