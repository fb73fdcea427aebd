/**
 * What the mock upstream does is chosen by the model's name, so that one process serves every
 * workload, whatever stands in front of it.
 */
export type Model =
  | { kind: 'json'; delayMs: number; replyBytes: number }
  | { kind: 'sse'; delayMs: number; chunks: number; intervalMs: number; chunkBytes: number };

export const MODELS = {
  'mock-json': { kind: 'json', delayMs: 0, replyBytes: 1024 },
  'mock-json-20ms': { kind: 'json', delayMs: 20, replyBytes: 1024 },
  'mock-chat': { kind: 'sse', delayMs: 20, chunks: 500, intervalMs: 4, chunkBytes: 280 },
  'mock-agent': { kind: 'sse', delayMs: 20, chunks: 300, intervalMs: 4, chunkBytes: 280 },
  'mock-idle': { kind: 'sse', delayMs: 20, chunks: Infinity, intervalMs: 500, chunkBytes: 280 },
} as const satisfies Record<string, Model>;

export type ModelName = keyof typeof MODELS;
