import { describe, expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { REPLY_TOKENS_DEFAULT } from '#server/providers/anthropic/request.ts';
import { callOf, refusedFor, sent } from '../../support/providers/anthropic-calls.ts';
import { requestText } from '../../support/providers/request-text.ts';

const tool = (more: object = {}): object => ({
  type: 'function',
  function: { name: 'tide_at', parameters: { type: 'object', properties: {} }, ...more },
});

describe('a request', () => {
  test("goes to the messages, in their version, with the upstream's name of the model", () => {
    const request = anthropic.request(callOf({ stream: true }, { model: 'claude-opus-5' }));
    if (request instanceof ApiError) throw new Error(request.message);
    expect(request).toMatchObject({
      path: '/v1/messages',
      headers: ['anthropic-version', '2023-06-01'],
      unsupported: [],
    });
    expect(JSON.parse(requestText(request))).toEqual({
      model: 'claude-opus-5',
      max_tokens: REPLY_TOKENS_DEFAULT,
      stream: true,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    });
  });

  test.each([
    ['none', {}, null, REPLY_TOKENS_DEFAULT],
    ["the client's", { max_tokens: 9 }, null, 9],
    ["the client's newer one", { max_completion_tokens: 8 }, null, 8],
    ["a quota's, over the client's", { max_tokens: 9, max_completion_tokens: 8 }, 5, 5],
    ["a quota's alone", {}, 5, 5],
  ])('is limited by %s', (_, body, tokenLimit, expected) => {
    expect(sent(body, { tokenLimit }).json['max_tokens']).toBe(expected);
  });

  test('names what the protocol has no place for, and nothing that asks for nothing', () => {
    const body = {
      n: 2,
      logprobs: true,
      top_logprobs: 3,
      logit_bias: { 5: 1 },
      seed: 7,
      frequency_penalty: 0.5,
      presence_penalty: 0.1,
      prediction: {},
      store: true,
      web_search_options: {},
    };
    expect(sent(body).unsupported.toSorted()).toEqual(Object.keys(body).toSorted());
    const idle = {
      n: 1,
      logprobs: false,
      logit_bias: {},
      seed: null,
      frequency_penalty: 0,
      presence_penalty: 0,
      store: false,
      stream_options: { include_usage: true },
      modalities: ['text'],
      service_tier: 'auto',
      response_format: { type: 'text' },
    };
    expect(sent(idle)).toMatchObject({ unsupported: [], json: { messages: [{ role: 'user' }] } });
    expect(Object.keys(sent(idle).json).toSorted()).toEqual(['max_tokens', 'messages', 'model']);
  });

  test.each([
    ['sound', { modalities: ['text', 'audio'], audio: { voice: 'alloy' } }, 'modalities'],
    ['functions of the old kind', { functions: [{ name: 'f' }] }, 'functions'],
    [
      'a tool that is no function',
      { tools: [tool(), { type: 'custom', custom: { name: 'c' } }] },
      'tools[1].type',
    ],
    ['a tool without a name', { tools: [{ type: 'function', function: {} }] }, 'tools[0].function.name'],
    ['a choice among some tools', { tools: [tool()], tool_choice: { type: 'allowed_tools' } }, 'tool_choice'],
    [
      'a schema that is not valid',
      { response_format: { type: 'json_schema', json_schema: { name: 'x' } } },
      'response_format.json_schema.schema',
    ],
    ['a format of no kind', { response_format: { type: 'grammar' } }, 'response_format.type'],
  ])('for %s is refused by its field', (_, body, param) => {
    expect(refusedFor(body)).toBe(param);
  });

  test('takes a route that it does not use for a model that is not there', () => {
    expect(anthropic.request(callOf({}, { route: '/v1/embeddings' }))).toMatchObject({
      code: 'model_not_found',
    });
  });
});

describe('sampling', () => {
  const OLDER = { model: 'claude-sonnet-4-6' };
  test.each([
    ['goes through', { temperature: 0.3 }, OLDER, { temperature: 0.3 }, []],
    ['is capped where Anthropic caps it', { temperature: 1.7 }, OLDER, { temperature: 1 }, []],
    [
      'of both kinds keeps the temperature',
      { temperature: 0.3, top_p: 0.5 },
      OLDER,
      { temperature: 0.3 },
      ['top_p'],
    ],
    [
      'that asks for nothing gives way',
      { temperature: 1, top_p: 0.5, top_k: 4 },
      OLDER,
      { top_p: 0.5, top_k: 4 },
      [],
    ],
    [
      'is omitted for models that refuse it',
      { temperature: 0.3, top_p: 0.5, top_k: 4 },
      { model: 'claude-opus-4-7' },
      {},
      ['temperature', 'top_p', 'top_k'],
    ],
    [
      'that asks for nothing is not missed by them',
      { temperature: 1, top_p: 1 },
      { model: 'claude-fable-6' },
      {},
      [],
    ],
    [
      'goes to other models that use the protocol',
      { temperature: 0.3 },
      { model: 'kimi-k3' },
      { temperature: 0.3 },
      [],
    ],
    [
      "can't go with a budget for thought",
      { temperature: 0.3, reasoning_effort: 'low' },
      { model: 'claude-haiku-4-5' },
      {},
      ['temperature'],
    ],
  ])('%s', (_, body, call, expected, unsupported) => {
    const { json, unsupported: left } = sent(body, call);
    const { temperature, top_p, top_k } = json;
    expect({ temperature, top_p, top_k }).toEqual(expected);
    expect(left).toEqual(unsupported);
  });

  test('of a stop keeps what Anthropic takes', () => {
    expect(sent({ stop: 'END' }).json['stop_sequences']).toEqual(['END']);
    expect(sent({ stop: ['END', '\n\n', 'a"b'] })).toMatchObject({
      json: { stop_sequences: ['END', 'a"b'] },
      unsupported: ['stop'],
    });
    expect(sent({ stop: '\n' }).json['stop_sequences']).toBeUndefined();
  });
});

describe('thinking', () => {
  const adaptive = { type: 'adaptive' };
  const budget = (budget_tokens: number): object => ({ type: 'enabled', budget_tokens });
  test.each([
    ['an effort', { reasoning_effort: 'high' }, 'claude-sonnet-5', adaptive, { effort: 'high' }],
    ['the least effort', { reasoning_effort: 'minimal' }, 'claude-opus-4-6', adaptive, { effort: 'low' }],
    [
      'an effort in the words of gateways',
      { reasoning: { effort: 'medium' } },
      'anthropic/claude-opus-4.8',
      adaptive,
      { effort: 'medium' },
    ],
    [
      'an effort with a way of thinking',
      { reasoning_effort: 'low', thinking: { ...adaptive, display: 'summarized' } },
      'claude-sonnet-5',
      { ...adaptive, display: 'summarized' },
      { effort: 'low' },
    ],
    ['no thought', { reasoning_effort: 'none' }, 'claude-sonnet-5', { type: 'disabled' }, undefined],
    [
      'an effort of an older model',
      { reasoning_effort: 'high' },
      'claude-sonnet-4-5-20250929',
      budget(16_384),
      undefined,
    ],
    [
      'an effort of an older name',
      { reasoning_effort: 'low' },
      'claude-3-7-sonnet-latest',
      budget(2_048),
      undefined,
    ],
    [
      'an effort of a first of its kind',
      { reasoning_effort: 'low' },
      'anthropic.claude-opus-4-20250514-v1:0',
      budget(2_048),
      undefined,
    ],
    ["an effort of another maker's model", { reasoning_effort: 'medium' }, 'glm-6', budget(8_192), undefined],
    ['no thought of an older model', { reasoning_effort: 'none' }, 'claude-haiku-4-5', undefined, undefined],
    [
      'an effort in a short reply',
      { reasoning_effort: 'high', max_tokens: 2_000 },
      'claude-haiku-4-5',
      budget(1_600),
      undefined,
    ],
    [
      'an own budget',
      { thinking: budget(4_000), max_tokens: 5_000 },
      'claude-haiku-4-5',
      budget(4_000),
      undefined,
    ],
    [
      'an own budget above the limit',
      { thinking: budget(4_000), max_tokens: 4_000 },
      'claude-haiku-4-5',
      budget(3_200),
      undefined,
    ],
  ])('by %s is asked for in the way that its model knows', (_, body, model, thinking, config) => {
    const { json, unsupported } = sent(body, { model });
    expect(json['thinking']).toEqual(thinking);
    expect(json['output_config']).toEqual(config);
    expect(unsupported).toEqual([]);
  });

  const loop = (assistant: object): object => ({
    reasoning_effort: 'high',
    messages: [
      { role: 'user', content: 'When?' },
      {
        role: 'assistant',
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'now', arguments: '' } }],
        ...assistant,
      },
      { role: 'tool', tool_call_id: 'a', content: 'noon' },
    ],
  });
  test.each([
    ['a reply is too short for it', { reasoning_effort: 'high', max_tokens: 1_000 }],
    ['a tool is forced', { reasoning_effort: 'high', tools: [tool()], tool_choice: 'required' }],
    ['the client has not sent its thoughts back', loop({})],
    ['the effort is absent that is known', { reasoning_effort: 'utmost' }],
  ])("is left out of an older model's call, by name, where %s", (_, body) => {
    expect(sent(body, { model: 'claude-haiku-4-5' })).toMatchObject({
      unsupported: ['reasoning_effort'],
      json: { messages: expect.any(Array) as unknown },
    });
    expect(sent(body, { model: 'claude-haiku-4-5' }).json['thinking']).toBeUndefined();
  });

  test('stays where the client has sent its thoughts back', () => {
    const body = loop({ reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: 'Eq' }] });
    expect(sent(body, { model: 'claude-haiku-4-5' })).toMatchObject({
      unsupported: [],
      json: { thinking: budget(16_384) },
    });
  });
});

describe('tools', () => {
  test('keep their schemas to the last digit and in their order', () => {
    const properties = '{"b":{"const":12345678901234567890},"10":{},"2":{"default":-0}}';
    const schema = `{"type":"object", "properties":${properties}, "additionalProperties":false}`;
    const definition = `{"name":"a","description":"d\\n","strict":true,"parameters":${schema}}`;
    const written = `{"type":"function","function":${definition},"cache_control":{"type":"ephemeral"}}`;
    const { text, json } = sent(`{"model":"tide","messages":[],"tools":[${written}]}`);
    expect(text).toContain(`"input_schema":${schema},`);
    expect(json['tools']).toMatchObject([
      { name: 'a', description: 'd\n', strict: true, cache_control: { type: 'ephemeral' } },
    ]);
  });

  test('without parameters take an object all the same', () => {
    const parameters = [undefined, null, {}, { properties: { a: {} } }, { type: 'object', required: [] }];
    const { json } = sent({ tools: parameters.map((each) => tool({ parameters: each })) });
    expect((json['tools'] as { input_schema: object }[]).map(({ input_schema: each }) => each)).toEqual([
      { type: 'object', properties: {} },
      { type: 'object', properties: {} },
      { type: 'object', properties: {} },
      { type: 'object', properties: { a: {} } },
      { type: 'object', required: [] },
    ]);
  });

  test.each([
    ['left open', {}, undefined],
    ['auto', { tool_choice: 'auto' }, { type: 'auto' }],
    ['none', { tool_choice: 'none', parallel_tool_calls: false }, { type: 'none' }],
    ['required', { tool_choice: 'required' }, { type: 'any' }],
    [
      'one of them',
      { tool_choice: { type: 'function', function: { name: 'tide_at' } } },
      { type: 'tool', name: 'tide_at' },
    ],
    ['one by one', { parallel_tool_calls: false }, { type: 'auto', disable_parallel_tool_use: true }],
    [
      'at most one, and one at least',
      { tool_choice: 'required', parallel_tool_calls: false },
      { type: 'any', disable_parallel_tool_use: true },
    ],
    ['together', { parallel_tool_calls: true }, undefined],
  ])('are chosen as the client says: %s', (_, body, expected) => {
    expect(sent({ tools: [tool()], ...body }).json['tool_choice']).toEqual(expected);
  });

  test('that are not there leave nothing to choose from', () => {
    expect(sent({ tools: [], tool_choice: 'auto', parallel_tool_calls: false }).json).not.toHaveProperty(
      'tool_choice',
    );
  });
});

describe('a format', () => {
  test("by a schema is Anthropic's own, with the schema as it stands", () => {
    const schema = '{"type":"object", "properties":{"n":{"maximum":12345678901234567890}}}';
    const format = `{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":${schema}}}`;
    const { text } = sent(
      `{"model":"tide","messages":[],"reasoning_effort":"low","response_format":${format}}`,
    );
    expect(text).toContain(
      `"output_config":{"effort":"low","format":{"type":"json_schema","schema":${schema}}}`,
    );
  });

  test('of any JSON object is asked for in words, since there is no member for it', () => {
    const { json } = sent({
      response_format: { type: 'json_object' },
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'JSON' },
      ],
    });
    expect(json['system']).toEqual([
      { type: 'text', text: 'Be brief.' },
      { type: 'text', text: expect.stringContaining('JSON object') as string },
    ]);
  });
});

test('the user is reported by the first of the names that clients use', () => {
  expect(sent({ user: 'u', safety_identifier: 's', metadata: { user_id: 'm', x: '1' } })).toMatchObject({
    json: { metadata: { user_id: 'm' } },
    unsupported: ['metadata'],
  });
  expect(sent({ user: 'u', safety_identifier: 's' }).json['metadata']).toEqual({ user_id: 's' });
  expect(sent({ user: 'u' }).json['metadata']).toEqual({ user_id: 'u' });
});
