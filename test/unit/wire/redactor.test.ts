import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MessageSse } from '#server/providers/anthropic/sse.ts';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { Redactor } from '#server/wire/redactor.ts';
import type { SseReader } from '#server/wire/sse.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';
import { runs } from '../../fuzz/property-runs.ts';

/** Letters and digits, so that a rest of them is found whatever the encoding. */
const letters = fc.string({
  unit: fc.constantFrom(...'abcdefXYZ0123456789'.split('')),
  minLength: 24,
  maxLength: 60,
});
const anySecret = fc
  .tuple(fc.constantFrom('', 'AIza', 'hf_', 'csk-', 'a/b+c=', 'quo"te\\', 'é€'), letters)
  .map(([prefix, text]) => prefix + text);

const unicodeEscaped = (text: string): string =>
  Array.from(
    { length: text.length },
    (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('');
const percentEscaped = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');

/** How an upstream may write a secret into a JSON string. */
const ENCODINGS: Record<string, (secret: string) => string> = {
  plain: (secret) => JSON.stringify(secret).slice(1, -1),
  'JSON with each character escaped': unicodeEscaped,
  'JSON in JSON': (secret) => JSON.stringify(JSON.stringify(secret)).slice(1, -1),
  'escaped JSON in JSON': (secret) => JSON.stringify(unicodeEscaped(secret)).slice(1, -1),
  'percent-encoded': (secret) => encodeURIComponent(secret),
  'percent-encoded, each byte': percentEscaped,
  'percent-encoded twice': (secret) => encodeURIComponent(percentEscaped(secret)),
  base64: (secret) => Buffer.from(secret).toString('base64'),
  'base64, second alignment': (secret) => Buffer.from(`:${secret}`).toString('base64'),
  'base64, third alignment': (secret) => Buffer.from(`u:${secret}`).toString('base64'),
  base64url: (secret) => Buffer.from(`Bearer ${secret}`).toString('base64url'),
};
const anyEncoding = fc.constantFrom(...Object.keys(ENCODINGS));

/** Every text that a client may decode from a text, down to some depth. */
function decodings(text: string, depth = 3): string[] {
  if (depth === 0) return [text];
  const unescaped = text
    .replace(/\\u([0-9a-fA-F]{4})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/\\(.)/g, '$1');
  const unpercented = Buffer.from(
    text.replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'utf8',
  ).toString();
  const base64 = (text.match(/[\w+/=-]{16,}/g) ?? []).map((each) =>
    Buffer.from(each, 'base64').toString('latin1'),
  );
  const further = [unescaped, unpercented].filter((each) => each !== text);
  return [text, ...base64, ...further.flatMap((each) => decodings(each, depth - 1))];
}

/** The part of a secret without the characters that encodings treat in different ways. */
const core = (secret: string): string => /[A-Za-z0-9]{24,}$/.exec(secret)?.[0] ?? secret;

function expectNoSecret(text: string, secret: string): void {
  for (const each of decodings(text)) expect(each).not.toContain(core(secret));
}

type Stream = (
  open: (redactor: Redactor) => SseReader,
  events: string,
) => (redactor: Redactor, sizes: number[]) => string;
const stream: Stream = (open, events) => (redactor, sizes) => {
  const reader = open(redactor);
  const out = [...chunksOf(Buffer.from(events), sizes).map((chunk) => reader.push(chunk)), reader.flush()];
  return Buffer.concat(out.filter((each) => each !== null)).toString();
};

/** Replies with a text in each place where one can stand, as each reader relays them. */
const PLACES: Record<string, (text: string) => (redactor: Redactor, sizes: number[]) => string> = {
  'an error reply': (text) => (redactor) => redactor.errorText(JSON.parse(`"wrong key ${text}!"`) as string),
  'a JSON reply': (text) => (redactor) =>
    redactor.json(Buffer.from(`{"choices":[{"message":{"content":"key ${text}!"}}]}`), false).toString(),
  'a JSON reply that was read': (text) => (redactor) => {
    const bytes = Buffer.from(`{"choices":[{"message":{"content":"key ${text}!"}}]}`);
    return redactor.json(bytes, false, bytes.toString('latin1')).toString();
  },
  'an error as a JSON reply': (text) => (redactor) =>
    redactor.json(Buffer.from(`{"error":{"message":"key ${text}!"}}`), true).toString(),
  'a chat delta': (text) =>
    stream(
      (redactor) => new ChatSse(false, redactor),
      `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`,
    ),
  'a chat error': (text) =>
    stream((redactor) => new ChatSse(false, redactor), `data: {"error":{"message":"no ${text}"}}\r\n\r\n`),
  'an error event that is not JSON': (text) =>
    stream((redactor) => new ChatSse(false, redactor), `event: error\ndata: no ${text} here\n\n`),
  'a comment': (text) => stream((redactor) => new ChatSse(false, redactor), `: key ${text}\n\n`),
  'a response error': (text) =>
    stream(
      (redactor) => new ResponsesSse(redactor),
      `event: error\ndata: {"type":"error","message":"${text}"}\n\n`,
    ),
  'a message error': (text) =>
    stream((redactor) => new NativeSse(redactor), `data: {"type":"error","error":{"message":"${text}"}}\n\n`),
  'a translated message': (text) =>
    stream(
      (redactor) => new MessageSse(1, false, redactor),
      'data: {"type":"message_start","message":{"id":"m","model":"m"}}\n\n' +
        `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"${text}"}}\n\n`,
    ),
};

describe.each(Object.entries(PLACES))('a credential in %s', (place, relayed) => {
  test('never leaves, in any encoding and any chunks', () => {
    fc.assert(
      fc.property(
        anySecret,
        anyEncoding,
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 9 }),
        (secret, encoding, sizes) => {
          const encoded = (ENCODINGS[encoding] as (text: string) => string)(secret);
          const text = relayed(encoded)(new Redactor(['another-credential', secret], []), sizes);
          expectNoSecret(text, secret);
          expect(text).toContain('[credential]');
          if (!place.includes('not JSON') && place !== 'a comment' && place !== 'an error reply')
            for (const line of text.split(/\r?\n/).filter((each) => /^(?:data: )?\{/.test(each)))
              expect(() => JSON.parse(line.replace(/^data: /, '')) as unknown).not.toThrow();
        },
      ),
      runs(10),
    );
  });

  test('is the only thing removed', () => {
    const without = relayed('100 % of \\u00e9t\\u00e9 \\n')(new Redactor(), [7]);
    expect(
      relayed('100 % of \\u00e9t\\u00e9 \\n')(new Redactor(['secret-credential-0123456789'], []), [5]),
    ).toBe(without);
  });
});

test('a credential in half an event behind a complete reply is removed', () => {
  const reader = new ChatSse(false, new Redactor(['Canary7f3a9c51be02']));
  reader.push(Buffer.from('data: [DONE]\n\ndata: {"a":"Canary7f3a9c51be02'));
  expect(reader.flush()?.toString()).toBe('data: {"a":"[credential]');
});

test('a credential in an event above the bound is removed wherever the parts are divided', () => {
  const secret = 'Q0xZy7-0123456789-abcdefgh-canary';
  const redactor = new Redactor([secret]);
  const padding = 'x'.repeat(SSE_EVENT_BYTES_MAX);
  for (const size of [4_096, 65_536 + 7]) {
    const reader = new ChatSse(false, redactor);
    const event = `data: {"choices":[{"delta":{"content":"${padding}${`${secret} `.repeat(2_000)}"}}]}\n\n`;
    const out = chunksOf(Buffer.from(event), [size]).map((chunk) => reader.push(chunk)?.toString() ?? '');
    expect(out.join('')).toBe(event.replaceAll(secret, '[credential]'));
    expect(reader.insideEvent).toBe(false);
  }
});

test('an event above the bound keeps its end where a CR decides late that it has ended', () => {
  const reader = new ChatSse(false, new Redactor(['Q0xZy7-0123456789-abcdefgh-canary']));
  const event = Buffer.from(`data: ${'x'.repeat(SSE_EVENT_BYTES_MAX)}\r\r`);
  const out = [event, Buffer.from('data: {}\n\n')].map((chunk) => reader.push(chunk)?.toString() ?? '');
  expect(out.join('')).toBe(`${event.toString()}data: {}\n\n`);
});

describe("the upstream's address", () => {
  const redactor = new Redactor([], ['models.internal.example']);
  test.each([
    'connect to models.internal.example:8443 failed',
    'no route to MODELS.internal.example',
    'https%3A%2F%2Fmodels.internal.example%3A8443%2Fv1',
    Buffer.from('https://models.internal.example/v1').toString('base64'),
    Buffer.from(' https://models.internal.example/v1').toString('base64'),
    'connect ECONNREFUSED 10.3.4.5:8000',
    'see http://10.0.0.1/v1',
  ])('leaves no error: %s', (text) => {
    const shown = redactor.errorText(text);
    expect(shown).toContain('[address]');
    for (const each of decodings(shown)) expect(each).not.toMatch(/internal\.example|10\.\d|8443/i);
  });

  test('stays in what the model writes', () => {
    const bytes = Buffer.from('{"choices":[{"message":{"content":"Call https://models.internal.example"}}]}');
    expect(redactor.json(bytes, false)).toBe(bytes);
  });
});

test('a short credential, such as the word "ollama", is removed from errors only', () => {
  const redactor = new Redactor(['ollama']);
  expect(redactor.text('Run ollama serve')).toBe('Run ollama serve');
  expect(redactor.errorText('The key ollama is wrong')).toBe('The key [credential] is wrong');
});

test('the values of a credential that is a JSON object are removed one by one', () => {
  const redactor = new Redactor([
    JSON.stringify({ accessKeyId: 'AKIA0123456789ABCDEF', secret: 'w+x/y'.repeat(8) }),
  ]);
  expect(redactor.text(`key ${'w+x/y'.repeat(8)} of AKIA0123456789ABCDEF`)).toBe(
    'key [credential] of [credential]',
  );
});
