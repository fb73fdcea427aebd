/** A request body to be made: deterministic, so that every target gets the same bytes. */
export type BodySpec = {
  /** One of the upstream's models, as the target names it. */
  model: string;
  bytes: number;
  /** `chat`: one message. `agent`: what a coding agent sends, with tools and many turns. */
  shape: 'chat' | 'agent';
  sse: boolean;
  /** Whether the client itself asks for the usage chunk; agents do, plain SDK calls do not. */
  asksUsage: boolean;
  /** The longest reply that the client takes, in tokens. */
  maxTokens: number;
};

// Quotes and line ends need escapes in JSON, as prompts do; a scanner must not get plain text only.
const PROSE = 'Read the file, then explain "why" the test fails;\nkeep the public interface as it is. ';

const TOOL_COUNT = 24;
const TOOL_ARGUMENTS = 8;

/** The body as JSON of exactly `spec.bytes` bytes: model first, stream_options last, as SDKs do. */
export function makeBody(spec: BodySpec): Buffer {
  const fixed =
    spec.shape === 'agent' ? agentParts() : { first: [{ role: 'system', content: 'Be helpful.' }], more: {} };
  const turns: object[] = [];
  const render = (padding: number): string =>
    JSON.stringify({
      model: spec.model,
      messages: [...fixed.first, ...turns, { role: 'user', content: `Go on. ${'x'.repeat(padding)}` }],
      ...fixed.more,
      temperature: 0.7,
      max_tokens: spec.maxTokens,
      ...(spec.sse ? { stream: true } : {}),
      ...(spec.asksUsage ? { stream_options: { include_usage: true } } : {}),
    });
  const missingBytes = (): number => spec.bytes - render(0).length;
  if (spec.shape === 'agent') {
    // Turns differ only in their numbers; the few bytes by which longer ones grow are kept free.
    const turnBytes = JSON.stringify(agentTurn(0)).length + 20;
    for (let left = missingBytes() - turnBytes; left > 0; left -= turnBytes)
      turns.push(...agentTurn(turns.length));
  }
  if (missingBytes() < 0)
    throw new Error(`${spec.bytes} bytes are too few for a body of the shape ${spec.shape}`);
  return Buffer.from(render(missingBytes()));
}

function agentParts(): { first: object[]; more: object } {
  const properties = Array.from({ length: TOOL_ARGUMENTS }, (_, index) => [
    `argument_${index}`,
    { type: index % 2 === 0 ? 'integer' : 'string', description: prose(90) },
  ]);
  const parameters = { type: 'object', properties: Object.fromEntries(properties), required: ['argument_0'] };
  const tools = Array.from({ length: TOOL_COUNT }, (_, index) => ({
    type: 'function',
    function: { name: `tool_${index}`, description: prose(1500), parameters },
  }));
  return { first: [{ role: 'system', content: prose(18_000) }], more: { tools } };
}

/** One step of an agent: the model called a tool, and the tool's result came back. */
function agentTurn(number: number): object[] {
  const call = {
    name: `tool_${number % TOOL_COUNT}`,
    arguments: JSON.stringify({ argument_0: number, argument_1: prose(160) }),
  };
  return [
    {
      role: 'assistant',
      content: prose(200),
      tool_calls: [{ id: `call_${number}`, type: 'function', function: call }],
    },
    { role: 'tool', tool_call_id: `call_${number}`, content: prose(2_000) },
  ];
}

function prose(characters: number): string {
  return PROSE.repeat(Math.ceil(characters / PROSE.length)).slice(0, characters);
}
