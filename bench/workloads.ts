import type { BodySpec } from './driver/bodies.ts';
import type { Expectation } from './driver/connection.ts';
import type { Load } from './driver/job.ts';
import { type ModelName, MODELS } from './upstream/models.ts';

/**
 * The key of a request. `limited`: limits of every kind are in force, all far from exhausted;
 * `restricted`: the key has limits of its own as well; `unlimited`: there are no limits; `near`: a
 * quota is almost exhausted. The other keys are rejected: 401, 401 and 403.
 */
export type Credential = 'limited' | 'restricted' | 'unlimited' | 'near' | 'missing' | 'wrong' | 'suspended';

export type Workload = {
  title: string;
  load: Load;
  body: BodySpec;
  credential: Credential;
  /** The targets that it measures; null for all. */
  targets: readonly string[] | null;
  expect: Expectation;
  /** How often a stream carries a chunk; null for JSON. */
  chunkIntervalMs: number | null;
  /** What CPU time is divided by. */
  unit: 'request' | 'chunk';
  /** Whether memory is what counts: then the target is started for it, in one round, and for longer. */
  forMemory: boolean;
  /** More warm-up than others need, because streams take time to overlap evenly. */
  warmupSecs: number;
};

const SMALL_BYTES = 1024;
const AGENT_BYTES = 400_000;
const MAX_TOKENS = 4096;

/** A JSON call of the given model. */
function json(title: string, model: ModelName, bytes: number, load: Load): Workload {
  const { replyBytes } = MODELS[model] as { replyBytes: number };
  return {
    title,
    load,
    body: {
      model,
      bytes,
      shape: bytes === SMALL_BYTES ? 'chat' : 'agent',
      sse: false,
      asksUsage: false,
      maxTokens: MAX_TOKENS,
    },
    credential: 'limited',
    targets: null,
    expect: { status: 200, sse: false, chunks: null, replyBytes, usageChunk: false },
    chunkIntervalMs: null,
    unit: 'request',
    forMemory: false,
    warmupSecs: 0,
  };
}

/** A streamed call of the given model. */
function sse(title: string, model: ModelName, load: Load): Workload {
  const { chunks, intervalMs } = MODELS[model] as { chunks: number; intervalMs: number };
  const isAgent = model === 'mock-agent';
  return {
    title,
    load,
    body: {
      model,
      bytes: isAgent ? AGENT_BYTES : SMALL_BYTES,
      shape: isAgent ? 'agent' : 'chat',
      sse: true,
      asksUsage: isAgent,
      maxTokens: MAX_TOKENS,
    },
    credential: 'limited',
    targets: null,
    expect: {
      status: 200,
      sse: true,
      chunks: Number.isFinite(chunks) ? chunks : null,
      replyBytes: null,
      usageChunk: isAgent,
    },
    chunkIntervalMs: intervalMs,
    unit: isAgent ? 'request' : 'chunk',
    forMemory: load.mode === 'hold',
    warmupSecs: 3,
  };
}

/** A call that is refused because of its key. */
function refused(title: string, credential: Credential, status: number): Workload {
  const call = json(title, 'mock-json', SMALL_BYTES, { mode: 'closed', connections: 64, spreadMs: 0 });
  return { ...call, credential, expect: { ...call.expect, status } };
}

/** The small JSON call with another key, where only Daybook looks at keys. */
function keyed(title: string, credential: Credential, load: Load): Workload {
  const call = json(title, 'mock-json', SMALL_BYTES, load);
  const body = credential === 'near' ? { ...call.body, maxTokens: 100 } : call.body;
  return { ...call, body, credential, targets: ['direct', 'bare', 'daybook'] };
}

export const WORKLOADS = {
  json: json('small JSON, 64 at a time', 'mock-json', SMALL_BYTES, {
    mode: 'closed',
    connections: 64,
    spreadMs: 0,
  }),
  'json-restricted': keyed('small JSON, 64 at a time, the key has limits of its own', 'restricted', {
    mode: 'closed',
    connections: 64,
    spreadMs: 0,
  }),
  'json-unlimited': keyed('small JSON, 64 at a time, no limits', 'unlimited', {
    mode: 'closed',
    connections: 64,
    spreadMs: 0,
  }),
  'json-rate': json('small JSON, 1,000 per second', 'mock-json', SMALL_BYTES, {
    mode: 'open',
    perSecond: 1000,
  }),
  'json-20ms': json('small JSON, upstream takes 20 ms, 1,000 per second', 'mock-json-20ms', SMALL_BYTES, {
    mode: 'open',
    perSecond: 1000,
  }),
  'json-20ms-500': json('small JSON, upstream takes 20 ms, 500 per second', 'mock-json-20ms', SMALL_BYTES, {
    mode: 'open',
    perSecond: 500,
  }),
  near: keyed('small JSON near the end of a hard quota, 8 at a time', 'near', {
    mode: 'closed',
    connections: 8,
    spreadMs: 0,
  }),
  'near-rate': keyed('small JSON near the end of a hard quota, 200 per second', 'near', {
    mode: 'open',
    perSecond: 200,
  }),
  'chat-40': sse('chat: 40 streams of 500 chunks, 4 ms apart', 'mock-chat', {
    mode: 'closed',
    connections: 40,
    spreadMs: 40,
  }),
  'chat-160': sse('chat: 160 streams of 500 chunks, 4 ms apart', 'mock-chat', {
    mode: 'closed',
    connections: 160,
    spreadMs: 10,
  }),
  'body-400k': json('coding agent: 400 KB in, small JSON out, 8 at a time', 'mock-json', AGENT_BYTES, {
    mode: 'closed',
    connections: 8,
    spreadMs: 0,
  }),
  agent: sse('coding agent: 400 KB in, 300 chunks out, 24 streams', 'mock-agent', {
    mode: 'closed',
    connections: 24,
    spreadMs: 40,
  }),
  idle: sse('2,000 idle streams, a chunk per 500 ms each', 'mock-idle', {
    mode: 'hold',
    streams: 2000,
    spreadMs: 1,
  }),
  'refused-missing': refused('refused: no key, 401', 'missing', 401),
  'refused-wrong': refused('refused: right form and id, wrong secret, 401', 'wrong', 401),
  'refused-suspended': refused('refused: suspended account, 403', 'suspended', 403),
} as const satisfies Record<string, Workload>;

export type WorkloadName = keyof typeof WORKLOADS;

/** Whether every reply is one of the target's own making. */
export function isRefusal(workload: Workload): boolean {
  return workload.expect.status !== 200;
}
