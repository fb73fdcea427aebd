import { describe, expect, test } from 'vitest';
import { refusedFor, sent } from '../../support/providers/anthropic-calls.ts';

const text = (words: string, more: object = {}): object => ({ type: 'text', text: words, ...more });
const call = (id: string, name = 'now', given: unknown = '{}'): object => ({
  id,
  type: 'function',
  function: { name, arguments: given },
});
const use = (id: string, name = 'now', input: object = {}): object => ({ type: 'tool_use', id, name, input });
const result = (id: string, words: string): object => ({
  type: 'tool_result',
  tool_use_id: id,
  content: [text(words)],
});

/** System prompt and messages that go out for these. */
function said(...messages: object[]): { system: unknown; messages: [string, object[]][] } {
  const { json } = sent({ messages });
  return { system: json['system'], messages: json.messages.map(({ role, content }) => [role, content]) };
}

describe('instructions', () => {
  test('at the beginning are the system prompt, anyone who they are from', () => {
    expect(
      said(
        { role: 'system', content: 'A' },
        { role: 'developer', content: [text('B'), text('C')] },
        { role: 'user', content: 'Q' },
      ),
    ).toEqual({
      system: [text('A'), text('B'), text('C')],
      messages: [['user', [text('Q')]]],
    });
  });

  test('further on stay where they are', () => {
    expect(
      said(
        { role: 'user', content: 'Q' },
        { role: 'assistant', content: 'A' },
        { role: 'system', content: 'S' },
        { role: 'user', content: 'R' },
      ).messages,
    ).toEqual([
      ['user', [text('Q')]],
      ['assistant', [text('A')]],
      ['user', [text('S'), text('R')]],
    ]);
  });

  test('alone are everything that is asked', () => {
    expect(said({ role: 'system', content: 'A' }, { role: 'system', content: 'B' })).toEqual({
      system: [text('A')],
      messages: [['user', [text('B')]]],
    });
  });
});

describe('a conversation', () => {
  test('has one message for all of one role in a row', () => {
    expect(
      said(
        { role: 'user', content: 'A' },
        { role: 'user', content: 'B' },
        { role: 'assistant', content: 'C' },
        { role: 'assistant', content: null, refusal: 'D' },
      ).messages,
    ).toEqual([
      ['user', [text('A'), text('B')]],
      ['assistant', [text('C'), text('D')]],
    ]);
  });

  test('has no empty parts, which Anthropic refuses', () => {
    expect(
      said(
        { role: 'user', content: ['', text(' \n'), text('Q')] },
        { role: 'assistant', content: '' },
        { role: 'user', content: null },
      ).messages,
    ).toEqual([['user', [text('Q')]]]);
  });

  test('keeps every character', () => {
    const words = '\u6f6e \u{1f30a} "q" \\ \u0000 \u2028 \ud800';
    expect(said({ role: 'user', content: words }).messages).toEqual([['user', [text(words)]]]);
  });

  test('keeps marks for the cache, on parts, on messages and on results', () => {
    const mark = { cache_control: { type: 'ephemeral', ttl: '1h' } };
    expect(
      said(
        { role: 'system', content: [text('A', mark)] },
        { role: 'user', content: 'Q', ...mark },
        { role: 'assistant', tool_calls: [call('a')] },
        { role: 'tool', tool_call_id: 'a', content: 'x', ...mark },
        { role: 'user', content: [text('R'), text('S')], ...mark },
      ),
    ).toEqual({
      system: [text('A', mark)],
      messages: [
        ['user', [text('Q', mark)]],
        ['assistant', [use('a')]],
        ['user', [{ ...result('a', 'x'), ...mark }, text('R'), text('S', mark)]],
      ],
    });
  });

  test('names everything that has no place', () => {
    const image = { type: 'image_url', image_url: { url: 'https://x.example/a.png', detail: 'high' } };
    expect(sent({ messages: [{ role: 'user', name: 'Ada', content: [image] }] }).unsupported).toEqual([
      'messages.name',
      'messages.content.image_url.detail',
    ]);
  });
});

describe('tool calls', () => {
  test('in parallel have all their results in one message, before any words', () => {
    expect(
      said(
        { role: 'user', content: 'Q' },
        { role: 'assistant', content: 'L', tool_calls: [call('a', 'tide', '{"at": 1}'), call('b')] },
        { role: 'tool', tool_call_id: 'a', content: '1' },
        { role: 'system', content: 'S' },
        { role: 'tool', tool_call_id: 'b', content: [text('2')] },
        { role: 'user', content: 'R' },
      ).messages,
    ).toEqual([
      ['user', [text('Q')]],
      ['assistant', [text('L'), use('a', 'tide', { at: 1 }), use('b')]],
      ['user', [result('a', '1'), result('b', '2'), text('S'), text('R')]],
    ]);
  });

  test.each([
    ['""', '{}'],
    ['null', '{}'],
    [
      JSON.stringify(' {"id": 12345678901234567890, "10":1, "2":-0, "x":"\\ud800"} '),
      '{"id": 12345678901234567890, "10":1, "2":-0, "x":"\\ud800"}',
    ],
  ])('keep their arguments as they stand: %s', (given, input) => {
    const written = `{"id":"a","type":"function","function":{"name":"n","arguments":${given}}}`;
    const body = `{"model":"tide","messages":[{"role":"assistant","tool_calls":[${written}]}]}`;
    expect(sent(body).text).toContain(`"input":${input}}`);
  });

  test('with half a surrogate pair in their arguments are still JSON', () => {
    expect(said({ role: 'assistant', tool_calls: [call('a', 'n', '{"x":"\ud800"}')] }).messages).toEqual([
      ['assistant', [use('a', 'n', { x: '\ud800' })]],
    ]);
  });

  test('that another provider has named stay together with their results', () => {
    expect(
      said(
        { role: 'assistant', tool_calls: [call('functions.now:0')] },
        { role: 'tool', tool_call_id: 'functions.now:0', content: 'x' },
      ).messages,
    ).toEqual([
      ['assistant', [use('functions_now_0')]],
      ['user', [result('functions_now_0', 'x')]],
    ]);
  });

  test('may have nothing for a result', () => {
    expect(said({ role: 'tool', tool_call_id: 'a', content: '' }).messages).toEqual([
      ['user', [{ type: 'tool_result', tool_use_id: 'a' }]],
    ]);
  });
});

describe('thoughts', () => {
  const assistant = (...reasoning_details: object[]): object => ({
    role: 'assistant',
    content: 'A',
    reasoning_content: 'ignored',
    reasoning_details,
  });
  const blocks = (...details: object[]): object[] => said(assistant(...details)).messages[0]?.[1] ?? [];
  const thought = (thinking: string, signature: string): object => ({
    type: 'thinking',
    thinking,
    signature,
  });

  test('come back as they were, from fragments or whole', () => {
    const locked = { type: 'reasoning.encrypted', data: 'Em', index: 1 };
    expect(
      blocks(
        { type: 'reasoning.text', text: 'No', index: 0 },
        { type: 'reasoning.text', text: 'on', index: 0 },
        { type: 'reasoning.text', signature: 'Eq', index: 0 },
        locked,
      ),
    ).toEqual([thought('Noon', 'Eq'), { type: 'redacted_thinking', data: 'Em' }, text('A')]);
    expect(
      blocks(
        { type: 'reasoning.text', text: 'B', signature: 'S' },
        { type: 'reasoning.text', text: 'C', signature: 'T' },
      ),
    ).toEqual([thought('B', 'S'), thought('C', 'T'), text('A')]);
  });

  test('of other providers are omitted, since no one has signed them', () => {
    expect(
      blocks(
        { type: 'reasoning.text', text: 'No' },
        { type: 'reasoning.summary', summary: 'x' },
        { type: 'reasoning.text', text: 'x', signature: null },
      ),
    ).toEqual([text('A')]);
  });
});

describe('images and files', () => {
  const image = (url: string): object => ({ type: 'image_url', image_url: { url } });
  const block = (part: object): unknown => said({ role: 'user', content: [part] }).messages[0]?.[1][0];

  test.each([
    [
      'an address stays one',
      image('https://x.example/a.png'),
      { type: 'image', source: { type: 'url', url: 'https://x.example/a.png' } },
    ],
    [
      'a data URL becomes what it holds',
      image('data:image/png;base64,iVBORw0='),
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0=' } },
    ],
    [
      'a media type is written as Anthropic knows it',
      image('data:IMAGE/JPG;charset=x;base64,/9j/'),
      { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: '/9j/' } },
    ],
    [
      'an address without its object is taken',
      { type: 'image_url', image_url: 'https://x.example/a.png' },
      { type: 'image', source: { type: 'url', url: 'https://x.example/a.png' } },
    ],
    [
      'a file keeps its name',
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
      {
        type: 'document',
        title: 'a.pdf',
        source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
      },
    ],
    [
      'plain text is read',
      { type: 'file', file: { file_data: 'data:text/plain;base64,bWFyw6ll' } },
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'mar\u00e9e' } },
    ],
  ])('%s', (_, part, expected) => {
    expect(block(part)).toEqual(expected);
  });
});

describe("what can't be said", () => {
  const user = (...content: unknown[]): object => ({ messages: [{ role: 'user', content }] });
  const calls = (...tool_calls: unknown[]): object => ({
    messages: [
      { role: 'user', content: 'Q' },
      { role: 'assistant', tool_calls },
    ],
  });
  test.each([
    [
      'a recording',
      user(text('A'), { type: 'input_audio', input_audio: { data: '', format: 'wav' } }),
      'messages[0].content[1].input_audio',
    ],
    ['a part of no kind', user({ type: 'video_url' }), 'messages[0].content[0].type'],
    [
      'an image from nowhere',
      user({ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }),
      'messages[0].content[0].image_url.url',
    ],
    [
      'an image without an address',
      user({ type: 'image_url', image_url: {} }),
      'messages[0].content[0].image_url.url',
    ],
    [
      'a data URL that is not base64',
      user({ type: 'image_url', image_url: { url: 'data:image/svg+xml,<svg/>' } }),
      'messages[0].content[0].image_url.url',
    ],
    [
      'a file by its id',
      user({ type: 'file', file: { file_id: 'file-1' } }),
      'messages[0].content[0].file.file_id',
    ],
    ['a role of no kind', { messages: [{ role: 'function', content: 'x' }] }, 'messages[0].role'],
    ['a message that is none', { messages: ['x'] }, 'messages[0]'],
    ['content that is none', { messages: [{ role: 'user', content: 7 }] }, 'messages[0].content'],
    ['a result without its call', { messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id'],
    [
      'arguments that are no JSON',
      calls(call('a'), call('b', 'n', '{"at":')),
      'messages[1].tool_calls[1].function.arguments',
    ],
    [
      'arguments that are no object',
      calls(call('a', 'n', '[1]')),
      'messages[1].tool_calls[0].function.arguments',
    ],
    [
      'arguments that are too deep',
      calls(call('a', 'n', '['.repeat(100_000))),
      'messages[1].tool_calls[0].function.arguments',
    ],
    [
      'a call without an id',
      calls({ type: 'function', function: { name: 'n' } }),
      'messages[1].tool_calls[0].id',
    ],
    [
      'a call of no function',
      calls({ id: 'a', type: 'custom', custom: {} }),
      'messages[1].tool_calls[0].function',
    ],
  ])('is refused by its field: %s', (_, body, param) => {
    expect(refusedFor(body)).toBe(param);
  });
});
