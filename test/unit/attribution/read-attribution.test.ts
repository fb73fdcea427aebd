import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readAttribution } from '#server/attribution/read-attribution.ts';
import {
  ATTRIBUTION_MEMBERS,
  END_USER_HEADERS,
  END_USER_MEMBERS,
  SESSION_HEADERS,
  SESSION_MEMBERS,
  TAG_HEADERS,
  TAG_MEMBERS,
} from '#server/attribution/sources.ts';
import { normalizeValue, VALUE_BYTES_MAX } from '#db/attribution/value.ts';
import { scanObject } from '#server/wire/json.ts';
import { runs } from '../../fuzz/property-runs.ts';

type Headers = Record<string, string>;

function read(headers: Headers, body: object | string = {}): ReturnType<typeof readAttribution> {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify({ model: 'm', ...body }));
  return readAttribution(
    Object.entries(headers).flat(),
    bytes,
    scanObject(bytes, ['model'], ATTRIBUTION_MEMBERS),
  );
}

/** What Node makes of a header with these characters in UTF-8. */
const onTheWire = (text: string): string => Buffer.from(text).toString('latin1');

const DEVICE = 'a1'.repeat(32);
const ACCOUNT = '0b6a4c5e-6c5b-4a0f-9d43-2f6a3a1f9b10';
const SESSION = '5f0c7b1a-2d3e-4f50-8a9b-0c1d2e3f4a5b';

const CLIENTS: [client: string, headers: Headers, body: object, endUser: string | null, session: string][] = [
  [
    'Claude Code 2.1.197',
    { 'user-agent': 'claude-cli/2.1.197 (external, cli)', 'x-claude-code-session-id': SESSION },
    {
      metadata: {
        user_id: JSON.stringify({ device_id: DEVICE, account_uuid: ACCOUNT, session_id: SESSION }),
      },
    },
    ACCOUNT,
    SESSION,
  ],
  [
    'Claude Code with an API key',
    {},
    { metadata: { user_id: JSON.stringify({ device_id: DEVICE, account_uuid: '', session_id: SESSION }) } },
    DEVICE,
    SESSION,
  ],
  [
    'Claude Code 2.1.77',
    {},
    { metadata: { user_id: `user_${DEVICE}_account_${ACCOUNT}_session_${SESSION}` } },
    ACCOUNT,
    SESSION,
  ],
  [
    'Claude Code 2.0 without an account',
    {},
    { metadata: { user_id: `user_${DEVICE}_account__session_${SESSION}` } },
    DEVICE,
    SESSION,
  ],
  [
    'Codex 0.169',
    { originator: 'codex_exec', 'session-id': SESSION, 'thread-id': ACCOUNT, 'x-client-request-id': ACCOUNT },
    { prompt_cache_key: ACCOUNT },
    null,
    SESSION,
  ],
  ['Codex 0.58', { session_id: SESSION, conversation_id: SESSION }, {}, null, SESSION],
  ['Codex behind a proxy that drops underscores', {}, { prompt_cache_key: SESSION }, null, SESSION],
  [
    'opencode',
    { 'x-session-affinity': 'ses_6b0a1c2d3e4f5a6b7c8d', 'x-session-id': 'ses_6b0a1c2d3e4f5a6b7c8d' },
    {},
    null,
    'ses_6b0a1c2d3e4f5a6b7c8d',
  ],
  ['Qwen Code', { 'x-qwen-code-session-id': SESSION }, {}, null, SESSION],
  ['Kilo Code', { 'x-kilocode-taskid': 'ses_01', 'x-kilocode-version': '5.1' }, {}, null, 'ses_01'],
  ['Cline', { 'x-task-id': '1763915234567' }, {}, null, '1763915234567'],
  [
    'Open WebUI',
    {
      'x-openwebui-user-name': 'Ada',
      'x-openwebui-user-id': 'u-17',
      'x-openwebui-user-email': 'ada@example.com',
      'x-openwebui-chat-id': 'c-4',
    },
    {},
    'u-17',
    'c-4',
  ],
  ['OpenRouter', {}, { user: 'u-18', session_id: 's-5' }, 'u-18', 's-5'],
  ['LiteLLM', { 'x-litellm-end-user-id': 'u-19', 'x-litellm-session-id': 's-6' }, {}, 'u-19', 's-6'],
];

test.each(CLIENTS)('finds the end user and the session of %s', (_, headers, body, endUser, session) => {
  expect(read(headers, body)).toEqual({ endUser, session, tags: [], unusable: 0 });
});

test.each([
  ['user', { user: 'ada@example.com', safety_identifier: 'hash' }, 'ada@example.com'],
  ['safety_identifier', { safety_identifier: 'hash', metadata: { user_id: 'ada' } }, 'hash'],
  ['metadata.user_id', { metadata: { user_id: ' ada ' } }, 'ada'],
  ['metadata.user_id, a number', { metadata: { user_id: 42 } }, '42'],
])('reads the end user from %s', (_, body, expected) => {
  expect(read({}, body).endUser).toBe(expected);
});

test('puts our headers before those of clients, and headers before the body', () => {
  const body = { user: 'body', metadata: { session_id: 'body', tags: 'body' } };
  const clients = {
    'x-openwebui-user-id': 'client',
    'x-claude-code-session-id': 'client',
    'x-litellm-tags': 'client',
  };
  const ours = { 'x-daybook-user': 'ours', 'x-daybook-session': 'ours', 'x-daybook-tags': 'ours' };
  const named = (name: string): object => ({ endUser: name, session: name, tags: [name], unusable: 0 });
  expect(read({}, body)).toEqual(named('body'));
  expect(read(clients, body)).toEqual(named('client'));
  expect(read({ ...clients, ...ours }, body)).toEqual(named('ours'));
});

test.each([
  ['team:search, plain ,, plain,feature:a b', ['team:search', 'plain', 'feature:a b'], 0],
  [
    Array.from({ length: 12 }, (_, n) => `t${n}`).join(','),
    ['t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7'],
    4,
  ],
  [onTheWire('équipe:été'), ['équipe:été'], 0],
  ['a\u00ff,b', [], 1],
])('reads the tags %j', (sent, tags, unusable) => {
  expect(read({ 'x-daybook-tags': sent })).toEqual({ endUser: null, session: null, tags, unusable });
});

test.each([
  ['a list', ['a', 'b', 7, {}], ['a', 'b', '7'], 1],
  ['a text', 'a,b', ['a', 'b'], 0],
])('reads metadata.tags as %s', (_, tags, expected, unusable) => {
  expect(read({}, { metadata: { tags } })).toMatchObject({ tags: expected, unusable });
});

test('takes no name of a prompt for a session', () => {
  expect(read({}, { prompt_cache_key: 'support-prompt-v3' })).toMatchObject({ session: null, unusable: 0 });
});

test.each([
  ['too long', 'x'.repeat(VALUE_BYTES_MAX + 1)],
  ['too long in UTF-8', 'é'.repeat(VALUE_BYTES_MAX / 2 + 1)],
  ['with a line break', 'a\nb'],
  ['with NUL', 'a\0b'],
  ['with text that runs backwards', 'a\u202egpj.b'],
  ['half a surrogate pair', 'a\ud800'],
  ['an object', { name: 'ada' }],
  ['a list', ['ada']],
  ['a fraction', 1.5],
  ['true', true],
])('counts an end user that is %s and reads none', (_, user) => {
  expect(read({}, { user })).toEqual({ endUser: null, session: null, tags: [], unusable: 1 });
});

test('reads no member that a body has twice, and accepts the body', () => {
  expect(read({}, '{"model":"m","user":"a","user":"b","us\\u0065r":"c"}').endUser).toBeNull();
});

test('reads no metadata that is too large, and counts it', () => {
  expect(read({}, { metadata: { user_id: 'ada', more: 'x'.repeat(20_000) } })).toMatchObject({
    endUser: null,
    unusable: 1,
  });
});

test('reads no header that came twice, and counts it; tags may come so', () => {
  const body = Buffer.from('{}');
  const once = readAttribution(['X-Daybook-User', 'Lovelace, Ada'], body, { members: new Map() });
  expect(once).toMatchObject({ endUser: 'Lovelace, Ada', unusable: 0 });
  const sent = [
    'X-Daybook-User',
    'Ada',
    'x-daybook-user',
    'Ada',
    'x-daybook-tags',
    'a',
    'X-Daybook-Tags',
    'b',
  ];
  const twice = readAttribution(sent, body, { members: new Map() });
  expect(twice).toEqual({ endUser: null, session: null, tags: ['a', 'b'], unusable: 1 });
});

test('takes nothing from the prototype of an object', () => {
  expect(read({}, '{"model":"m","metadata":{"__proto__":{"user_id":"ada"}}}').endUser).toBeNull();
});

test('every member of the table is one that the scan finds', () => {
  for (const member of [...END_USER_MEMBERS, ...SESSION_MEMBERS, ...TAG_MEMBERS])
    expect(ATTRIBUTION_MEMBERS).toContain(member.split('.')[0]);
});

const HOSTILE = [
  '{',
  '{"device_id":',
  '{"session_id":{"__proto__":[]}}',
  'user__account__session_',
  `user_${DEVICE}_account__session_`,
  'null',
  ',',
  'tag,'.repeat(5_000),
  Array.from({ length: 200 }, (_, n) => n).join(', '),
  'é'.repeat(VALUE_BYTES_MAX / 2),
  '\u{1f600}'.repeat(VALUE_BYTES_MAX / 4),
  'x'.repeat(VALUE_BYTES_MAX + 1),
  '['.repeat(100),
  '\ud800',
  '\u202e',
];

test('reads whatever a client sends, without an error and within bounds', () => {
  // Made once: most of the time of a case would be that of its text.
  const texts = fc.oneof(
    { weight: 4, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
    { weight: 2, arbitrary: fc.constantFrom(...HOSTILE) },
    { weight: 1, arbitrary: fc.array(fc.string({ maxLength: 5 }), { maxLength: 12 }).map(String) },
  );
  const text = fc.constantFrom(...fc.sample(texts, 2_000));
  const json = fc.constantFrom(...fc.sample(fc.jsonValue({ maxDepth: 2 }), 500));
  const latin1 = text.map((each) => Buffer.from(each).toString('latin1'));
  const names = [...END_USER_HEADERS, ...SESSION_HEADERS, ...TAG_HEADERS].map(({ header }) => header);
  const headers = fc.dictionary(fc.constantFrom(...names), fc.oneof(text, latin1), { maxKeys: 4 });
  const metadata = fc.dictionary(
    fc.constantFrom('user_id', 'session_id', 'tags', '__proto__', 'constructor'),
    fc.oneof(text, json, fc.array(text, { maxLength: 10 })),
    { maxKeys: 3 },
  );
  const member = fc.oneof(text, json, metadata);
  const body = fc.dictionary(fc.constantFrom(...ATTRIBUTION_MEMBERS), member, { maxKeys: 3 });
  const isValid = (value: string | null): boolean =>
    value === null || (normalizeValue(value) === value && Buffer.byteLength(value) <= VALUE_BYTES_MAX);
  fc.assert(
    fc.property(headers, body, (sent, members) => {
      const { endUser, session, tags, unusable } = read(sent, members);
      const isDistinct = tags.length <= 8 && new Set(tags).size === tags.length;
      return isDistinct && [endUser, session, ...tags].every(isValid) && unusable >= 0;
    }),
    runs(2_000),
  );
});
