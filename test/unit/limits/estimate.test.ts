import * as fc from 'fast-check';
import { countTokens as countCl100k } from 'gpt-tokenizer/encoding/cl100k_base';
import { countTokens as countO200k } from 'gpt-tokenizer/encoding/o200k_base';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  AUDIO_TOKENS_MAX,
  CONTEXT_TOKENS_MAX,
  IMAGE_TOKENS_MAX,
  PAST_CALLS_MAX,
  REPLY_FIRST_TOKENS,
  REPLY_LEAST_TOKENS,
} from '#server/limits/bounds.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import { CallHistory } from '#server/limits/call-history.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { promptBound } from '#server/limits/prompt-bound.ts';
import { promptSize } from '#server/limits/prompt-estimate.ts';
import { scanRequest } from '#server/wire/request-parser.ts';
import { anyCharacter } from '../../support/arbitrary-character.ts';

/** What a chat template puts around each message, at the least: role and separators. */
const MESSAGE_TOKENS = 4;

const promptEstimate = (body: Buffer): number => promptSize(body).tokens;

type Message = { role: string; content: unknown; [more: string]: unknown };
const bodyOf = (...messages: Message[]): Buffer =>
  Buffer.from(JSON.stringify({ model: 'gpt-4o', messages, stream: true }));
const say = (content: unknown): Buffer => bodyOf({ role: 'user', content });
const count = (text: string): number => Math.max(countO200k(text), countCl100k(text));

/** Tokenizers take quadratic time for a run without spaces, so texts are counted in parts of this size. */
const PART_CHARACTERS = 1_000;

/** The sum of the counts of a text's parts. A border adds tokens, so a bound above it is above the whole. */
function countInParts(text: string): number {
  const characters = Array.from(text);
  const parts = Array.from({ length: Math.ceil(characters.length / PART_CHARACTERS) }, (_, index) =>
    characters.slice(index * PART_CHARACTERS, (index + 1) * PART_CHARACTERS).join(''),
  );
  const sum = (countTokens: (part: string) => number): number =>
    parts.reduce((total, part) => total + countTokens(part), 0);
  return Math.max(sum(countO200k), sum(countCl100k));
}

/** Bytes that look random and are the same in every run. */
function noise(length: number): Buffer {
  const blocks = Array.from({ length: Math.ceil(length / 32) }, (_, index) =>
    createHash('sha256').update(`noise ${index}`).digest(),
  );
  return Buffer.concat(blocks).subarray(0, length);
}
const CODE = readFileSync(
  path.join(import.meta.dirname, '../../../server/limits/prompt-estimate.ts'),
  'utf8',
);

/** Texts by language or format. */
const SAMPLES = JSON.parse(
  readFileSync(path.join(import.meta.dirname, '../../fixtures/texts/samples.json'), 'utf8'),
) as Record<string, string>;
const ENGLISH = SAMPLES['English prose'] as string;
const PYTHON = `def tides(harbour: str, *, days: int = 7) -> list[Tide]:
    """Return the tides of a harbour, highest first."""
    rows = [row for row in load(harbour) if row["height_m"] > 0.5 and not row.get("estimated")]
    for index, row in enumerate(rows[:days]):
        self._cache[f"{harbour}:{index}"] = Tide(at=parse(row["at"]), height_m=float(row["height_m"]))
    return sorted(self._cache.values(), key=lambda tide: -tide.height_m)
`;

/** Texts of one kind each; many times over they fill bodies of any size. */
const TEXTS: Record<string, string> = {
  ...SAMPLES,
  TypeScript: CODE,
  Python: PYTHON,
  JSON: JSON.stringify(
    Array.from({ length: 12 }, (_, index) => ({
      id: index,
      name: `tide-${index}`,
      open: index % 2 === 0,
      tags: ['noon', 'high'],
      at: '2026-11-21T04:11:09Z',
    })),
    null,
    2,
  ),
  base64: noise(3_000).toString('base64'),
  'base64 of URLs': noise(3_000).toString('base64url'),
  hex: noise(2_000).toString('hex'),
  ids: Array.from({ length: 40 }, (_, index) =>
    noise(16 * (index + 1))
      .subarray(-16)
      .toString('hex')
      .replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
  ).join('\n'),
  numbers: Array.from(noise(600), (byte, index) => ((byte * 7919 + index) / 13).toFixed(byte % 5)).join(', '),
  digits: Array.from(noise(3_000), (byte) => byte % 10).join(''),
  'a CSV table': Array.from({ length: 60 }, (_, index) => {
    const at = `2026-11-${10 + (index % 20)}T04:${10 + index}:09Z`;
    return [index, at, (index * 0.7331).toFixed(6), `row-${index}`].join(',');
  }).join('\n'),
  'letters by chance': Array.from(noise(2_000), (byte) => 'acgt'[byte % 4]).join(''),
};
/** Of these an estimate is at most twice too large; of the others tokenizers themselves differ by more. */
const PLAIN = [
  'English prose',
  'TypeScript',
  'Python',
  'JSON',
  'Markdown',
  'HTML',
  'a log',
  'capitals',
  'German',
  'French',
  'Polish',
  'Turkish',
];

describe('the estimate of a prompt', () => {
  test.each(Object.entries(TEXTS))(
    'is not below what %s counts, in the body of a call of any size',
    (_, text) => {
      for (const size of [600, 5_000, 30_000]) {
        const told = text
          .repeat(Math.ceil(size / text.length))
          .slice(0, Math.max(size, text.length))
          .toWellFormed();
        expect(promptEstimate(say(told))).toBeGreaterThanOrEqual(countInParts(told) + MESSAGE_TOKENS);
      }
    },
  );

  test.each(PLAIN)('is not twice what %s counts', (name) => {
    const told = (TEXTS[name] as string).repeat(20).slice(0, 20_000);
    expect(promptEstimate(say(told))).toBeLessThan(2 * count(told));
  });

  test.each(['Chinese', 'Japanese', 'Korean', 'Hindi', 'emoji'])(
    'is right where the client writes %s as escapes',
    (name) => {
      const told = (TEXTS[name] as string).repeat(20);
      const escaped = say(told)
        .toString()
        .replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
      const estimate = promptEstimate(Buffer.from(escaped));
      expect(estimate).toBeGreaterThanOrEqual(count(told));
      expect(estimate).toBeLessThan(2 * count(told));
    },
  );

  test('holds for the transcript of an agent, within twice', () => {
    const messages: Message[] = [{ role: 'system', content: ENGLISH.repeat(8) }];
    for (let step = 0; step < 30; step++) {
      const call = {
        id: `call_${noise(32 * (step + 1))
          .subarray(-12)
          .toString('hex')}`,
        type: 'function',
        function: {
          name: 'read_file',
          arguments: JSON.stringify({ path: `server/relay/file-${step}.ts`, offset: step * 100 }),
        },
      };
      messages.push({ role: 'assistant', content: null, tool_calls: [call] });
      messages.push({
        role: 'tool',
        tool_call_id: call.id,
        content: CODE.slice(step * 200, step * 200 + 1_500),
      });
    }
    const told = messages.reduce((sum, { content, tool_calls: calls }) => {
      const text =
        typeof content === 'string'
          ? content
          : JSON.stringify((calls as { function: object }[])[0]?.function);
      return sum + count(text) + MESSAGE_TOKENS;
    }, 0);
    const estimate = promptEstimate(bodyOf(...messages));
    expect(estimate).toBeGreaterThanOrEqual(told);
    expect(estimate).toBeLessThan(2 * told);
  });

  test('finds the dense part of a body that is mostly prose', () => {
    const told =
      ENGLISH.repeat(60) +
      (TEXTS['Chinese'] as string).repeat(60) +
      noise(6_000).toString('base64') +
      ENGLISH.repeat(60);
    expect(promptEstimate(say(told))).toBeGreaterThanOrEqual(count(told));
  });

  const image = (bytes: number): object => ({
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${noise(bytes).toString('base64')}` },
  });
  const text = { type: 'text', text: ENGLISH.repeat(10) };

  test.each([2_000, 30_000, 600_000])('takes an image of %d bytes for an image and not for text', (bytes) => {
    const estimate = promptEstimate(say([text, image(bytes), image(bytes), text]));
    expect(estimate).toBeGreaterThan(2 * count(ENGLISH) * 10 + 2 * 1_105);
    expect(estimate).toBeLessThan(2 * (2 * count(ENGLISH) * 10 + 2 * 1_600));
  });

  test('takes a recording for a recording', () => {
    const data = noise(200_000).toString('base64');
    const estimate = promptEstimate(
      say([text, { type: 'input_audio', input_audio: { data, format: 'mp3' } }, text]),
    );
    expect(estimate).toBeLessThan(2 * count(ENGLISH) * 20 + data.length / 100);
  });

  test.each<[string, string]>([
    ['members named data', '{"data":1},'],
    ['members named data with a text', '{"data":"1"},'],
    ['images', `"data:image/png;base64,${'A1b2C3d4'.repeat(16)}",`],
    ['files', `"data:application/pdf;base64,${'A1b2C3d4'.repeat(16)}",`],
  ])('searches a body with very many %s a few times, not once for each', (_, part) => {
    const body = Buffer.from(`{"a":"${noise(3_000).toString('base64')}","b":[${part.repeat(20_000)}]}`);
    let searched = 0;
    const search = (name: 'indexOf' | 'lastIndexOf'): void => {
      const inherited = body[name].bind(body);
      body[name] = (value: string | number | Uint8Array, from = 0, encoding?: unknown) => {
        const at = inherited(value, from as number, encoding as BufferEncoding);
        searched += name === 'indexOf' ? (at < 0 ? body.length : at) - Number(from) : Number(from) - at;
        return at;
      };
    };
    search('indexOf');
    search('lastIndexOf');
    const { textBytes, fileTokens } = promptSize(body);
    expect(fileTokens > 0).toBe(part.includes('base64'));
    if (fileTokens === 0) expect(textBytes).toBe(body.length);
    expect(searched).toBeLessThan(8 * body.length);
  });

  test('is the same each time, a whole number, and grows with the body', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 6_000 }), (bytes) => {
        const body = Buffer.from(bytes);
        const estimate = promptEstimate(body);
        expect(promptEstimate(Buffer.from(bytes))).toBe(estimate);
        expect(Number.isSafeInteger(estimate) && estimate >= 0).toBe(true);
        expect(promptEstimate(Buffer.concat([body, body, body, body]))).toBeGreaterThanOrEqual(estimate);
      }),
    );
    expect(promptEstimate(Buffer.alloc(0))).toBe(0);
  });
});

describe('the bound of a prompt', () => {
  const boundOf = (body: Buffer): number => {
    const scanned = scanRequest(body, []);
    if (scanned instanceof ApiError) throw scanned;
    return promptBound(body.length, scanned.parts);
  };

  test('is above every count, whatever the text', () => {
    const odd = fc.oneof(
      fc.string({ unit: anyCharacter, maxLength: 300 }),
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.constantFrom(...Object.values(TEXTS)),
    );
    fc.assert(
      fc.property(odd, (told) => {
        expect(boundOf(say(told))).toBeGreaterThanOrEqual(countInParts(told.toWellFormed()) + MESSAGE_TOKENS);
      }),
    );
  });

  const plain = boundOf(say('hello')) - say('hello').length;
  const added = (content: unknown): number => boundOf(say(content)) - say(content).length - plain;

  test.each<[string, object, number]>([
    [
      'an image by its address',
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      IMAGE_TOKENS_MAX,
    ],
    [
      'an image within',
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      IMAGE_TOKENS_MAX,
    ],
    ['an image without a type', { image_url: 'https://example.com/a.png' }, IMAGE_TOKENS_MAX],
    ['a file by its id', { type: 'file', file: { file_id: 'file-1' } }, CONTEXT_TOKENS_MAX],
    [
      "a picture in a message of Anthropic's",
      { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
      IMAGE_TOKENS_MAX,
    ],
    [
      'a document in one',
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'AAAA' } },
      CONTEXT_TOKENS_MAX,
    ],
    [
      'a picture in a part of Gemini',
      { inlineData: { data: 'AAAA', mimeType: 'image/png' } },
      IMAGE_TOKENS_MAX,
    ],
    ['a recording in one', { inline_data: { mime_type: 'audio/wav', data: 'AAAA' } }, AUDIO_TOKENS_MAX],
    ['a file in one', { inlineData: { data: 'AAAA', mimeType: 'application/pdf' } }, CONTEXT_TOKENS_MAX],
    ['content in one without a type', { inlineData: { data: 'AAAA' } }, CONTEXT_TOKENS_MAX],
    ['text in one', { inlineData: { data: 'AAAA', mimeType: 'text/plain' } }, 0],
    ['a file of Google', { fileData: { fileUri: 'https://example.com/a' } }, CONTEXT_TOKENS_MAX],
    ['a video', { type: 'video_url', video_url: { url: 'https://example.com/a.mp4' } }, CONTEXT_TOKENS_MAX],
  ])('makes room for %s', (_, part, tokens) => expect(added([part])).toBe(tokens));

  test('makes room for each image', () => {
    const part = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
    expect(added([part, part, part])).toBe(3 * IMAGE_TOKENS_MAX);
  });

  test('finds a part however its name is written', () => {
    const spelt = (text: string): number =>
      boundOf(Buffer.from(`{"messages":[{"content":[{${text}}]}]}`)) - text.length;
    const none = spelt('');
    expect(spelt('"image_url" :\n {}')).toBe(none + IMAGE_TOKENS_MAX);
    expect(spelt('"image\\u005furl":{}')).toBeGreaterThanOrEqual(none + IMAGE_TOKENS_MAX);
    expect(spelt(`"type"${' '.repeat(9)}:\n "image"`)).toBe(none + IMAGE_TOKENS_MAX);
    expect(spelt(`"type":${' '.repeat(999)}"image"`)).toBe(none + IMAGE_TOKENS_MAX);
    expect(spelt('"\\u0069mage_url":{}')).toBeGreaterThanOrEqual(none + IMAGE_TOKENS_MAX);
  });

  test.each([
    '"mimeType":"text/plain","mimeType":"video/mp4"',
    '"mimeType":"image/png","mime_type":"video/mp4"',
  ])('takes content with several media types for a file, since a provider may read any: %s', (types) => {
    const body = `{"contents":[{"parts":[{"inlineData":{${types},"data":"AAAA"}}]}]}`;
    expect(boundOf(Buffer.from(body))).toBeGreaterThan(CONTEXT_TOKENS_MAX);
  });

  test('is not raised by text that speaks of parts, nor by the escapes that clients write', () => {
    expect(added('{"image_url": "x", "file_id": 1} and "input_audio":, "type":"document"')).toBe(0);
    expect(boundOf(Buffer.from('{"required":["document"],"enum":["image"],"image":1}'))).toBe(
      boundOf(Buffer.from('{}')) + 50,
    );
    expect(boundOf(Buffer.from('{"\\u003c\\u0026":"\\u4f60\\u00e9"}'))).toBe(plain + 31);
  });
});

describe('the estimate of a reply', () => {
  const KEY = 'Key00001';
  const model = 'gpt-4o';
  const learning = (lengths: readonly number[], key = KEY): CallHistory => {
    const history = new CallHistory();
    for (const length of lengths) history.of(key, model).learnReply(length);
    return history;
  };

  test("is a guess at first, then the model's, then the key's own", () => {
    const history = new CallHistory();
    expect(history.of(KEY, model).replyTokens).toBe(REPLY_FIRST_TOKENS);
    for (let reply = 0; reply < 50; reply++) history.of('Key00002', model).learnReply(4_000);
    expect(history.of(KEY, model).replyTokens).toBeGreaterThan(3_500);
    for (let reply = 0; reply < 200; reply++) history.of(KEY, model).learnReply(100);
    expect(history.of(KEY, model).replyTokens).toBeLessThan(400);
    expect(history.of('Key00002', model).replyTokens).toBeGreaterThan(3_500);
    expect(history.of(KEY, 'other').replyTokens).toBe(REPLY_FIRST_TOKENS);
  });

  test('comes to the length of replies that are all as long', () => {
    fc.assert(
      fc.property(fc.integer({ min: REPLY_LEAST_TOKENS, max: 200_000 }), (length) => {
        const estimate = learning(Array.from({ length: 400 }, () => length)).of(KEY, model).replyTokens;
        expect(Math.abs(estimate - length)).toBeLessThanOrEqual(1 + length * 0.05);
      }),
    );
  });

  test('covers most replies of every kind of length, and not by far', () => {
    const uniform = Array.from(noise(4_000), (byte) => 20 + byte * 10);
    const long = Array.from(noise(4_000), (byte) => Math.round(-800 * Math.log((byte + 0.5) / 256)));
    const two = Array.from(noise(4_000), (byte) => (byte < 64 ? 3_000 : 60));
    for (const lengths of [uniform, long, two]) {
      const history = learning(lengths.slice(0, 1_000));
      let covered = 0;
      let sum = 0;
      for (const length of lengths.slice(1_000)) {
        const estimate = history.of(KEY, model).replyTokens;
        if (estimate >= length) covered += 1;
        sum += estimate;
        history.of(KEY, model).learnReply(length);
      }
      expect(covered / 3_000).toBeGreaterThanOrEqual(0.74);
      expect(sum / 3_000).toBeLessThanOrEqual(1.2 * Math.max(...lengths));
    }
  });

  test('rises fast and falls slowly, and one long reply is not taken for all', () => {
    const history = learning(Array.from({ length: 200 }, () => 100));
    history.of(KEY, model).learnReply(100_000);
    expect(history.of(KEY, model).replyTokens).toBeGreaterThan(200);
    expect(history.of(KEY, model).replyTokens).toBeLessThan(400);
    for (let reply = 0; reply < 6; reply++) history.of(KEY, model).learnReply(8_000);
    const risen = history.of(KEY, model).replyTokens;
    expect(risen).toBeGreaterThan(6_000);
    history.of(KEY, model).learnReply(100);
    expect(history.of(KEY, model).replyTokens).toBeGreaterThan(risen * 0.9);
  });

  test('is a whole number within its bounds, whatever was learned, and the same each time', () => {
    const odd = fc.oneof(fc.nat(TOKENS_MAX), fc.double(), fc.constantFrom(0, -1, Infinity, NaN, 2 ** 53));
    fc.assert(
      fc.property(fc.array(odd, { maxLength: 50 }), (lengths) => {
        const estimate = learning(lengths).of(KEY, model).replyTokens;
        expect(Number.isInteger(estimate)).toBe(true);
        expect(estimate).toBeGreaterThanOrEqual(REPLY_LEAST_TOKENS);
        expect(estimate).toBeLessThanOrEqual(TOKENS_MAX);
        expect(learning(lengths).of(KEY, model).replyTokens).toBe(estimate);
      }),
    );
  });

  test('is kept for so many, and those heard of least lately are forgotten', () => {
    const history = new CallHistory();
    const half = PAST_CALLS_MAX / 2;
    for (let index = 0; index < PAST_CALLS_MAX; index++) {
      history.of(String(index).padStart(8, '0'), `model-${index}`).learnReply(9_000);
      if (index % 100 === 0) history.of(KEY, model).learnReply(9_000);
      expect(history.size).toBeLessThanOrEqual(PAST_CALLS_MAX);
    }
    expect(history.of(KEY, model).replyTokens).toBeGreaterThan(8_000);
    expect(history.of(String(half + 1).padStart(8, '0'), `model-${half + 1}`).replyTokens).toBeGreaterThan(
      REPLY_FIRST_TOKENS,
    );
    expect(history.of('00000000', 'model-0').replyTokens).toBe(REPLY_FIRST_TOKENS);
  });
});
