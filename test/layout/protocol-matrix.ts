import { ApiError } from '#server/errors/api-error.ts';
import { CLIENTS } from '#server/protocols/clients.ts';
import type { AssistantPart, Conversation, Tool, UserPart } from '#server/protocols/conversation.ts';
import { literalOf } from '#server/protocols/literal.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import type { ReplyEvent } from '#server/protocols/reply-events.ts';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import { providerCallOf } from '../support/protocols/provider-call.ts';
import { readStream } from '../support/protocols/read-replies.ts';
import { foundIn, NOTHING_ASKED, streamOf } from '../support/protocols/replies.ts';
import { requestText } from '../support/providers/request-text.ts';

/** The tables of docs/protocols.md that say which parts of requests and replies each protocol carries. */

const NAMES: Record<Protocol, string> = {
  chat: 'chat completions',
  responses: 'responses',
  messages: 'messages',
  gemini: 'Gemini',
};
/** A model that takes levels of reasoning in each protocol. */
const MODEL = 'claude-opus-4-8';

type Cell = 'yes' | 'changed' | 'listed' | '400' | 'as text' | 'no';

/** @property has whether the conversation that was read back has the feature. */
type Asked = { name: string; of: Partial<Conversation>; has(read: Conversation): boolean };

const CALL: AssistantPart = { type: 'tool_call', id: 'call_1', name: 'f', input: '{"a":1}', isCustom: false };
const TOOL: Tool = {
  kind: 'function',
  name: 'f',
  description: null,
  parameters: { type: 'object' },
  strict: false,
};
const IMAGE = 'data:image/png;base64,AAAA';

const user = (part: UserPart): Partial<Conversation> => ({ turns: [{ role: 'user', parts: [part] }] });
const assistant = (...parts: AssistantPart[]): Partial<Conversation> => ({
  turns: [
    { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
    { role: 'assistant', parts },
    { role: 'user', parts: [{ type: 'text', text: 'on' }] },
  ],
});
const result = (part: UserPart): Partial<Conversation> => ({
  turns: [
    { role: 'user', parts: [{ type: 'text', text: 'hi' }] },
    { role: 'assistant', parts: [CALL] },
    { role: 'tool', results: [{ id: 'call_1', parts: part.type === 'audio' ? [] : [part] }] },
  ],
});
const saidIn = ({ turns }: Conversation): AssistantPart[] =>
  turns.flatMap((turn) => (turn.role === 'assistant' ? turn.parts : []));
const askedIn = ({ turns }: Conversation): UserPart[] =>
  turns.flatMap((turn) => (turn.role === 'user' ? turn.parts : []));

const ASKED: readonly Asked[] = [
  {
    name: 'instructions',
    of: { turns: [{ role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] }, ...textTurns()] },
    has: ({ turns }) => turns.some(({ role }) => role === 'system'),
  },
  {
    name: 'images',
    of: user({ type: 'image', url: IMAGE, detail: null }),
    has: (read) => askedIn(read).some((part) => part.type === 'image' && part.url === IMAGE),
  },
  {
    name: 'detail of an image',
    of: user({ type: 'image', url: IMAGE, detail: 'low' }),
    has: (read) => askedIn(read).some((part) => part.type === 'image' && part.detail === 'low'),
  },
  {
    name: 'audio',
    of: user({ type: 'audio', data: 'AAAA', format: 'wav' }),
    has: (read) => askedIn(read).some(({ type }) => type === 'audio'),
  },
  {
    name: 'documents',
    of: user({ type: 'document', url: 'data:application/pdf;base64,AAAA', name: 'a.pdf' }),
    has: (read) => askedIn(read).some(({ type }) => type === 'document'),
  },
  {
    name: 'tool calls and results',
    of: result({ type: 'text', text: 'noon' }),
    has: ({ turns }) => turns.some(({ role }) => role === 'tool'),
  },
  {
    name: 'images in a result',
    of: result({ type: 'image', url: IMAGE, detail: null }),
    has: ({ turns }) =>
      turns.some(
        (turn) =>
          turn.role === 'tool' &&
          turn.results.some(({ parts }) => parts.some(({ type }) => type === 'image')),
      ),
  },
  {
    name: 'signed reasoning',
    of: assistant({ type: 'reasoning', text: 'Hm.', signature: 'c2ln' }, CALL),
    has: (read) => saidIn(read).some((part) => part.type === 'reasoning' && part.signature === 'c2ln'),
  },
  {
    name: 'redacted reasoning',
    of: assistant({ type: 'redacted_reasoning', data: 'c2ln' }, CALL),
    has: (read) => saidIn(read).some(({ type }) => type === 'redacted_reasoning'),
  },
  {
    name: 'reasoning without a signature',
    of: assistant({ type: 'reasoning', text: 'Hm.', signature: null }, { type: 'text', text: 'Noon.' }),
    has: (read) => saidIn(read).some(({ type }) => type === 'reasoning'),
  },
  { name: 'functions', of: { tools: [TOOL] }, has: ({ tools }) => tools[0]?.kind === 'function' },
  {
    name: 'strict schemas of functions',
    of: { tools: [{ ...TOOL, strict: true }] },
    has: ({ tools }) => tools[0]?.kind === 'function' && tools[0].strict,
  },
  {
    name: 'free-text tools',
    of: { tools: [{ kind: 'custom', name: 'f', description: null }] },
    has: ({ tools }) => tools[0]?.kind === 'custom',
  },
  {
    name: 'choice of a tool',
    of: { tools: [TOOL], toolChoice: { name: 'f' } },
    has: ({ toolChoice }) => typeof toolChoice === 'object' && toolChoice?.name === 'f',
  },
  {
    name: 'one call at a time',
    of: { tools: [TOOL], parallelToolCalls: false },
    has: ({ parallelToolCalls }) => parallelToolCalls === false,
  },
  {
    name: 'level of reasoning',
    of: { reasoningEffort: 'low' },
    has: ({ reasoningEffort }) => reasoningEffort === 'low',
  },
  { name: 'temperature', of: { temperature: 0.5 }, has: ({ temperature }) => temperature === 0.5 },
  { name: 'top_p', of: { topP: 0.5 }, has: ({ topP }) => topP === 0.5 },
  { name: 'stop sequences', of: { stop: ['END'] }, has: ({ stop }) => stop[0] === 'END' },
  {
    name: 'JSON by a schema',
    of: { format: { type: 'json_schema', name: 'reply', schema: { type: 'object' }, strict: true } },
    has: ({ format }) => format?.type === 'json_schema',
  },
  {
    name: 'JSON without one',
    of: { format: { type: 'json_object' } },
    has: ({ format }) => format?.type === 'json_object',
  },
];

function textTurns(): Conversation['turns'] {
  return [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }];
}

function askedCell({ of, has }: Asked, protocol: Protocol): Cell {
  const conversation: Conversation = { ...NOTHING_ASKED, turns: textTurns(), ...of };
  const losses: string[] = [];
  const report = (field: string): unknown => losses.push(field);
  const upstream = UPSTREAMS[protocol];
  const options = { tokenLimitMember: 'max_tokens', reasoning: 'details', report } as const;
  const call = upstream.call(providerCallOf(undefined, MODEL), conversation, options);
  if (call instanceof ApiError) return '400';
  const request = upstream.request(call, createOpenai('other'));
  if (request instanceof ApiError) return '400';
  const body = JSON.parse(requestText(request)) as Record<string, unknown>;
  if (has(CLIENTS[protocol].read(body, () => {}))) return 'yes';
  return losses.length + request.unsupported.length > 0 ? 'listed' : 'changed';
}

/** @property text what a text in its place would hold. */
type Said = { name: string; events: ReplyEvent[]; text?: string };

const SAID: readonly Said[] = [
  { name: 'text', events: [{ type: 'text', text: 'Noon.' }] },
  { name: 'refusals', events: [{ type: 'refusal', text: 'No.' }], text: 'No.' },
  { name: 'reasoning', events: [{ type: 'reasoning', text: 'Hm.' }] },
  { name: 'signatures of reasoning', events: [{ type: 'signature', signature: 'c2ln' }] },
  { name: 'redacted reasoning', events: [{ type: 'redacted_reasoning', data: 'c2ln' }] },
  {
    name: 'parallel tool calls',
    events: [0, 1].flatMap((index): ReplyEvent[] => [
      { type: 'tool_call', index, id: `call_${index}`, name: 'f' },
      { type: 'tool_arguments', index, text: literalOf('{"a":1}') },
    ]),
  },
  {
    name: 'citations',
    events: [{ type: 'citation', url: 'https://example.com', title: 'T' }],
    text: 'https://example.com',
  },
  { name: 'images', events: [{ type: 'image', url: IMAGE }], text: 'an image' },
  { name: 'end at the token limit', events: [{ type: 'finish', reason: 'length' }] },
  { name: 'end by a content filter', events: [{ type: 'finish', reason: 'content_filter' }] },
];

function saidCell({ events, text }: Said, protocol: Protocol): Cell {
  const all: ReplyEvent[] = [{ type: 'start', id: 'c', model: 'm' }, ...events];
  if (!all.some(({ type }) => type === 'finish')) all.push({ type: 'finish', reason: 'stop' });
  const stream = streamOf(protocol, { events: all, usage: USAGE }).toString();
  const read = readStream(protocol, stream);
  const types = new Set(events.map(({ type }) => type));
  const kept = read.filter(({ type }) => types.has(type));
  if (JSON.stringify(kept) === JSON.stringify(events)) return 'yes';
  return text !== undefined && foundIn(read).text.includes(text) ? 'as text' : 'no';
}

const USAGE = { input: 100, cached: 10, cacheWrite: 20, output: 50, reasoning: 30 };
const COUNTS = [
  ['cached tokens in the usage', 'cached'],
  ['tokens written to a cache', 'cacheWrite'],
  ['reasoning tokens in the usage', 'reasoning'],
] as const;

function countCell(count: (typeof COUNTS)[number][1], protocol: Protocol): Cell {
  const sse = UPSTREAMS[protocol].sse(providerCallOf());
  const events: ReplyEvent[] = [
    { type: 'start', id: 'c', model: 'm' },
    { type: 'text', text: 'Noon.' },
    { type: 'finish', reason: 'stop' },
  ];
  sse.push(streamOf(protocol, { events, usage: USAGE }));
  return sse.usage?.[count] === USAGE[count] ? 'yes' : 'no';
}

function table(first: string, rows: readonly (readonly [string, (protocol: Protocol) => Cell])[]): string {
  const head = [first, ...PROTOCOLS.map((protocol) => NAMES[protocol])];
  const lines = rows.map(([name, cell]) => [name, ...PROTOCOLS.map(cell)]);
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const TABLES: Readonly<Record<string, () => string>> = {
  requests: () =>
    table(
      'of a request',
      ASKED.map((asked) => [asked.name, (protocol) => askedCell(asked, protocol)] as const),
    ),
  replies: () =>
    table('of a reply', [
      ...SAID.map((said) => [said.name, (protocol: Protocol) => saidCell(said, protocol)] as const),
      ...COUNTS.map(([name, count]) => [name, (protocol: Protocol) => countCell(count, protocol)] as const),
    ]),
};

/** The page with its generated tables. */
export function withProtocolTables(page: string): string {
  return Object.entries(TABLES).reduce(
    (text, [name, make]) =>
      text.replace(
        new RegExp(`<!-- ${name} -->[\\s\\S]*?<!-- /${name} -->`),
        () => `<!-- ${name} -->\n\n${make()}\n\n<!-- /${name} -->`,
      ),
    page,
  );
}
