/** What people do with a model, by the clients that they do it with. Each says the same of the same reply. */

/** Where a client is pointed. */
export type To = { baseUrl: string; key: string };

export type Call = { name: string; input: unknown };

export type Flows = {
  chat(to: To, model: string): Promise<{ text: string; outputTokens: number | undefined }>;
  /** The text, piece by piece. */
  stream(to: To, model: string): Promise<string[]>;
  /** Streams calls of tools, then reports their results to `next`, in their order. */
  tools(to: To, model: string, next: string): Promise<{ calls: Call[]; text: string }>;
  image(to: To, model: string): Promise<string>;
  structured(to: To, model: string): Promise<unknown>;
  /** Leaves a stream after its third piece. */
  abort(to: To, model: string): Promise<void>;
};

/** A picture of one point. */
export const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const RESULTS = ['noon at Leith', 'dusk at Oban'];
export const HELLO = 'When does the tide turn?';
export const SCHEMA = {
  type: 'object',
  properties: { text: { type: 'string' } },
  required: ['text'],
  additionalProperties: false,
} as const;
export const TOOL_NAMES = ['tool_0', 'tool_1'];
export const PIECES_SEEN = 3;

export const asked = [{ role: 'user' as const, content: HELLO }];
