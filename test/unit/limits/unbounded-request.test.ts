import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { REQUEST_LISTS } from '#server/limits/request-lists.ts';
import { rejectUnbounded } from '#server/limits/unbounded-request.ts';
import { findUnlisted, type Shape } from '#server/limits/json-shape.ts';

/** Rejections under a hard limit, and how their errors name the field. The lists: request-lists.test.ts. */

const check = (route: RelayedRoute, body: string | object): string | null => {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return rejectUnbounded(route, bytes, 'm')?.param ?? null;
};
const responses = (...input: unknown[]): string | null => check('/v1/responses', { model: 'm', input });

describe('a model that searches by itself, or names a stored preset, is rejected', () => {
  const paramOf = (model: string): string | null =>
    rejectUnbounded('/v1/chat/completions', Buffer.from(JSON.stringify({ model, messages: [] })), model)
      ?.param ?? null;

  test.each([
    'openai/gpt-5:online',
    'sonar',
    'perplexity/sonar-reasoning-pro',
    'perplexity/sonar:free',
    'gpt-4o-mini-search-preview-2025-03-11',
    'gpt-5-search-api',
    'o3-deep-research',
    'o4-mini-deep-research-2025-06-26',
    'groq/compound-mini',
    'compound-beta',
    '@preset/mine',
    'openai/gpt-5@preset/mine',
  ])('%s', (model) => expect(paramOf(model)).toBe('model'));

  test('also by the name that one of its upstreams knows, which the error keeps to itself', () => {
    const body = Buffer.from('{"model":"research","messages":[]}');
    const targets = [{ model: null }, { model: 'gpt-5:online' }];
    const error = rejectUnbounded('/v1/chat/completions', body, 'research', targets);
    expect(error?.param).toBe('model');
    expect(error?.message).toContain('"research"');
    expect(error?.message).not.toContain('gpt-5');
    expect(rejectUnbounded('/v1/chat/completions', body, 'research', targets.slice(0, 1))).toBeNull();
  });

  test.each([
    'gpt-5',
    'openai/gpt-5:nitro',
    'sonarqube',
    'text-search-ada-doc-001',
    'compounds',
    'my-research',
  ])('but not %s', (model) => expect(paramOf(model)).toBeNull());
});

describe('a model that generates images is rejected', () => {
  const body = Buffer.from('{"model":"m","messages":[]}');
  const errorOf = (model: string) => rejectUnbounded('/v1/chat/completions', body, model);

  test.each([
    'openai/gpt-5-image',
    'openai/gpt-5-image-mini',
    'gemini-2.5-flash-image',
    'google/gemini-3-pro-image-preview',
    'gemini-2.0-flash-preview-image-generation',
    'google/gemini-2.5-flash-image:free',
    'gpt-image-1',
    'chatgpt-image-latest',
    'dall-e-3',
    'imagen-4.0-generate-001',
    'black-forest-labs/flux.2-pro',
    'bytedance-seed/seedream-4.5',
    'qwen-image',
    'nano-banana-pro',
  ])('%s', (model) => {
    expect(errorOf(model)?.param).toBe('model');
    expect(errorOf(model)?.message).toContain('generates images');
  });

  test('also by the name that one of its upstreams knows', () => {
    const targets = [{ model: 'gemini-2.5-flash-image' }];
    expect(rejectUnbounded('/v1/chat/completions', body, 'painter', targets)?.param).toBe('model');
  });

  test.each(['gpt-5', 'gemini-2.5-flash', 'imageless', 'my-images', 'influx', 'fluxion', 'qwen-vl-max'])(
    'but not %s',
    (model) => expect(errorOf(model)).toBeNull(),
  );
});

describe('a field that refers to content outside the request is rejected', () => {
  test.each<[RelayedRoute, object, string]>([
    ['/v1/messages', { thread: { type: 'continue', previous_message_id: 'msg_1' } }, 'thread'],
    ['/v1/messages', { thread: { type: 'create' } }, 'thread'],
    [
      '/v1/messages',
      { tools: [{ name: 'f' }, { type: 'web_search_20250305', max_uses: 1 }] },
      'tools[1].type',
    ],
    ['/v1/messages', { mcp_servers: [] }, 'mcp_servers'],
    ['/v1/messages', { container: 'container_1' }, 'container'],
    ['/v1/messages', { system: [{ type: 'container_upload', file_id: 'f' }] }, 'system[0].type'],
    ['/v1/messages', { speed: 'fast' }, 'speed'],
    ['/v1/responses', { previous_response_id: 'resp_1' }, 'previous_response_id'],
    ['/v1/responses', { conversation: { id: 'conv_1' } }, 'conversation'],
    ['/v1/responses', { prompt: { id: 'pmpt_1' } }, 'prompt'],
    ['/v1/responses', { tools: [{ type: 'web_search' }] }, 'tools[0].type'],
    ['/v1/responses', { tools: [{ type: 'mcp', server_label: 's' }] }, 'tools[0].type'],
    [
      '/v1/responses',
      { tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'web_search' }] }] },
      'tools[0].tools[0].type',
    ],
    ['/v1/responses', { reasoning: { effort: 'low', mode: 'pro' } }, 'reasoning.mode'],
    ['/v1/chat/completions', { web_search_options: {} }, 'web_search_options'],
    ['/v1/chat/completions', { plugins: [{ id: 'web' }] }, 'plugins'],
    ['/v1/chat/completions', { extra_body: { google: { cached_content: 'c' } } }, 'extra_body'],
    ['/v1/chat/completions', { search_parameters: { mode: 'on' } }, 'search_parameters'],
    ['/v1/chat/completions', { models: ['dear'] }, 'models'],
    ['/v1/chat/completions', { modalities: ['text', 'image'] }, 'modalities[1]'],
    ['/v1/chat/completions', { tools: [{ google_search: {} }] }, 'tools[0].google_search'],
    ['/v1/chat/completions', { messages: [{ role: 'assistant', audio: { id: 'a' } }] }, 'messages[0].audio'],
    ['/v1/completions', { prompt_embeds: 'x' }, 'prompt_embeds'],
    ['/v1/embeddings', { input: [{ image: 'https://example.com/' }] }, 'input[0].image'],
  ])('%s %j', (route, body, param) => {
    expect(check(route, { model: 'm', ...body })).toBe(param);
  });

  test('an item without type and role is a reference', () => {
    expect(responses({ id: 'msg_1' })).toBe('input[0].type');
    expect(responses({ id: 'msg_1', type: null })).toBe('input[0].type');
    expect(responses({ id: 'msg_1', type: 'item_reference' }, { role: 'user', content: 'x' })).toBe(
      'input[0].type',
    );
    expect(responses({ id: 'msg_1', role: 'user', content: 'x' })).toBe(null);
    expect(check('/v1/responses', '{"input":[{"type":"message","type":null,"id":"m"}]}')).toBe(
      'input[0].type',
    );
    expect(check('/v1/responses', '{"input":[{"\\u0074ype":"item_\\u0072eference","id":"m"}]}')).toBe(
      'input[0].type',
    );
  });

  test('stored reasoning is a reference; sealed reasoning is not', () => {
    expect(responses({ type: 'reasoning', id: 'rs_1', summary: [] })).toBe('input[0].id');
    expect(responses({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: '' })).toBe(
      'input[0].id',
    );
    expect(responses({ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' })).toBe(null);
    expect(
      responses({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'x' }] }),
    ).toBe(null);
  });

  test('a model with a search of its own', () => {
    expect(rejectUnbounded('/v1/chat/completions', Buffer.from('{}'), 'gpt-5:online')).toMatchObject({
      code: 'invalid_value',
      status: 400,
      param: 'model',
    });
  });
});

test('the error names the field, the reason and the remedy', () => {
  const message = (route: RelayedRoute, body: object): string | undefined =>
    rejectUnbounded(route, Buffer.from(JSON.stringify(body)), 'm')?.message;
  expect(message('/v1/responses', { tools: [{ type: 'web_search' }] })).toBe(
    'Tools of type "web_search" are run or defined by the provider, and this account has a hard quota, ' +
      'under which usage must be bounded before a request is sent. ' +
      'Remove the tool, or define it as a function that the client runs.',
  );
  expect(message('/v1/messages', { thread: { type: 'continue' } })).toContain('"thread: false"');
  expect(message('/v1/responses', { previous_response_id: 'r' })).toBe(
    'The field "previous_response_id" refers to content outside the request, and this account has a ' +
      'hard quota, under which usage must be bounded before a request is sent. ' +
      'Send the whole conversation instead.',
  );
  expect(message('/v1/responses', { input: [{ type: 'reasoning', id: 'r' }] })).toContain(
    '"encrypted_content"',
  );
  expect(message('/v1/chat/completions', { new_field: 1 })).toContain(
    'The field "new_field" is not known to leave',
  );
});

test('real requests pass', () => {
  const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', thread: 1 } } };
  const calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
  expect(
    check('/v1/chat/completions', {
      model: 'm',
      messages: [
        { role: 'system', content: 'x' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'x' },
            { type: 'image_url', image_url: { url: 'data:' } },
          ],
        },
        { role: 'assistant', content: null, audio: null, tool_calls: calls },
        { role: 'tool', tool_call_id: 'c', content: 'x' },
      ],
      tools: [tool],
      stream: true,
      stream_options: { include_usage: true },
    }),
  ).toBe(null);
  expect(
    check('/v1/messages', {
      model: 'm',
      max_tokens: 5,
      temperature: 1,
      top_k: 5,
      top_p: 1,
      system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: 'x' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: '', signature: 's' },
            { type: 'tool_use', id: 't', name: 'f', input: { thread: 1 } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: 'x' }] },
            { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: '' } },
          ],
        },
      ],
      tools: [
        { name: 'f', input_schema: { type: 'object', properties: { container: {} } } },
        { type: 'custom', name: 'g', input_schema: {} },
      ],
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      thinking: { type: 'adaptive' },
      metadata: { user_id: 'u' },
      container: null,
    }),
  ).toBe(null);
  expect(
    check('/v1/responses', {
      model: 'm',
      instructions: 'x',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'x' }] },
        {
          type: 'message',
          id: 'm',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'x', annotations: [] }],
        },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'x' }] },
      ],
      tools: [
        { type: 'function', name: 'f', parameters: {}, strict: false },
        { type: 'custom', name: 'g', format: { type: 'grammar' } },
      ],
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      previous_response_id: null,
      store: false,
      background: false,
    }),
  ).toBe(null);
});

/** Every way to a member that is not compared, with a body that holds a value there. */
function* placesOf(shape: Shape, depth = 0): Generator<(value: unknown) => unknown> {
  for (const [name, listed] of Object.entries(shape.members)) {
    if (listed === 'anything') yield (value) => ({ [name]: value });
    else if ('members' in listed && depth < 4)
      for (const within of placesOf(listed, depth + 1)) yield (value) => ({ [name]: [within(value)] });
  }
}

test('a member of any value is not looked into; an unlisted member beside it is found', () => {
  for (const route of RELAYED_ROUTES) {
    const shape = REQUEST_LISTS[route];
    const places = [...placesOf(shape)];
    expect(places).not.toEqual([]);
    fc.assert(
      fc.property(
        fc.constantFrom(...places),
        fc.json({ maxDepth: 3 }),
        fc.string({ minLength: 1 }).filter((name) => !(name in shape.members)),
        (place, value, name) => {
          const body = place(JSON.parse(value)) as Record<string, unknown>;
          const found = findUnlisted(Buffer.from(JSON.stringify(body)), shape);
          // Deeper objects may lack the role or type that they need.
          expect(found === null || found.kind === 'incomplete').toBe(true);
          const more = JSON.stringify({ [name]: 1, ...body }, null, 1);
          expect(findUnlisted(Buffer.from(more), shape)).toMatchObject({
            kind: 'member',
            name: name.slice(0, 100),
          });
        },
      ),
      { numRuns: 100 },
    );
  }
});
