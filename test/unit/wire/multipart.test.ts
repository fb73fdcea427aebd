import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MULTIPART_PART_HEAD_BYTES_MAX, MULTIPART_PARTS_MAX } from '#server/wire/bounds.ts';
import { boundaryOf, MultipartError, type MultipartPart, MultipartReader } from '#server/wire/multipart.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

type Read = { part: MultipartPart; content: Buffer; end: number };

/** The parts of a form, read in these chunks. */
function read(reader: MultipartReader, chunks: readonly Buffer[]): Read[] {
  const parts: Read[] = [];
  let contents: Buffer[] = [];
  for (const chunk of chunks) {
    for (const event of reader.push(chunk)) {
      if (event.type === 'part') {
        parts.push({ part: event.part, content: Buffer.alloc(0), end: -1 });
        contents = [];
      } else if (event.type === 'content') contents.push(Buffer.from(event.bytes));
      else if (event.type === 'part_end')
        Object.assign(parts.at(-1) as Read, { content: Buffer.concat(contents), end: event.at });
    }
  }
  return parts;
}

async function formOf(fields: readonly [name: string, value: string | File][]): Promise<[Buffer, string]> {
  const form = new FormData();
  for (const [name, value] of fields) form.append(name, value);
  const response = new Response(form);
  const boundary = boundaryOf(response.headers.get('content-type') ?? '');
  return [Buffer.from(await response.arrayBuffer()), boundary ?? ''];
}

const form = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'));
const DISPOSITION = 'Content-Disposition: form-data; name="model"';
const errorOf = (bytes: Buffer, boundary = 'b'): string => {
  try {
    new MultipartReader(boundary).push(bytes);
    return 'none';
  } catch (error) {
    if (error instanceof MultipartError) return error.message;
    throw error;
  }
};

const anySizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 });
/** Contents that look like line ends and delimiters. */
const anyContent = fc
  .array(fc.constantFrom('\r', '\n', '--', '\r\n--', '----formdata-undici-0', 'a', '\0', 'é'), {
    maxLength: 30,
  })
  .map((parts) => parts.join(''));

describe('a form', () => {
  test('has the same parts in any chunks, whatever their contents look like', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyContent, { minLength: 1, maxLength: 4 }),
        anySizes,
        async (texts, sizes) => {
          const [bytes, boundary] = await formOf(
            texts.map((text, index) => [`part${index}`, new File([text], `${index}.bin`)]),
          );
          const reader = new MultipartReader(boundary);
          const parts = read(reader, chunksOf(bytes, sizes));
          expect(reader.isComplete).toBe(true);
          expect(reader.size).toBe(bytes.length);
          expect(parts.map(({ content }) => content.toString())).toEqual(texts);
          for (const { part, content, end } of parts) {
            expect(bytes.subarray(part.at, end)).toEqual(content);
            expect(part.contentType).toBe('application/octet-stream');
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  test('keeps the names of fields and files apart', async () => {
    const file = new File(['x'], 'lärm "1".mp3', { type: 'audio/mpeg' });
    const [bytes, boundary] = await formOf([
      ['model', 'whisper-1'],
      ['file', file],
    ]);
    expect(read(new MultipartReader(boundary), [bytes]).map(({ part }) => ({ ...part, at: 0 }))).toEqual([
      { name: 'model', filename: null, contentType: null, at: 0 },
      { name: 'file', filename: 'lärm %221%22.mp3', contentType: 'audio/mpeg', at: 0 },
    ]);
  });

  test('is complete with or without a line end behind it, and not before its last delimiter', () => {
    const whole = form('--b', DISPOSITION, '', 'm', '--b--', '');
    for (const [length, isComplete] of [
      [whole.length, true],
      [whole.length - 1, true],
      [whole.length - 2, true],
      [whole.length - 3, false],
    ] as const) {
      const reader = new MultipartReader('b');
      reader.push(whole.subarray(0, length));
      expect([length, reader.isComplete]).toEqual([length, isComplete]);
    }
  });
});

describe('a form that readers may understand differently is rejected', () => {
  const REJECTED: Record<string, [Buffer, RegExp]> = {
    'with a preamble': [form('hello', '--b', DISPOSITION, '', 'm', '--b--'), /begin/],
    'with an epilogue': [form('--b', DISPOSITION, '', 'm', '--b--', '--b'), /last boundary/],
    'with bare line feeds': [Buffer.from(`--b\n${DISPOSITION}\n\nm\n--b--`), /line end/],
    'with a blank behind a boundary': [form('--b ', DISPOSITION, '', 'm', '--b--'), /line end/],
    'without a disposition': [form('--b', 'Content-Type: text/plain', '', 'm', '--b--'), /Disposition/],
    'with two dispositions': [form('--b', DISPOSITION, DISPOSITION, '', 'm', '--b--'), /header/],
    'with two names': [form('--b', `${DISPOSITION}; name="n"`, '', 'm', '--b--'), /Disposition/],
    'with an unquoted name': [
      form('--b', 'Content-Disposition: form-data; name=m', '', 'm', '--b--'),
      /Dispo/,
    ],
    'with an escaped name': [
      form('--b', 'Content-Disposition: form-data; name="mo\\del"', '', 'm', '--b--'),
      /Disposition/,
    ],
    'with a folded header': [form('--b', DISPOSITION, ' ; x=y', '', 'm', '--b--'), /header/],
    'with an encoded part': [
      form('--b', DISPOSITION, 'Content-Transfer-Encoding: base64', '', 'bQ==', '--b--'),
      /header/,
    ],
    'with a value in another charset': [
      form('--b', DISPOSITION, 'Content-Type: text/plain; charset=utf-7', '', 'm', '--b--'),
      /UTF-8/,
    ],
    'with a field for the charset': [
      form('--b', 'Content-Disposition: form-data; name="_charset_"', '', 'utf-7', '--b--'),
      /UTF-8/,
    ],
    'with an endless head': [form('--b', `X: ${'x'.repeat(MULTIPART_PART_HEAD_BYTES_MAX)}`), /exceeds/],
    'with too many parts': [
      form(
        ...Array.from({ length: MULTIPART_PARTS_MAX + 1 }, () => ['--b', DISPOSITION, '', 'm']).flat(),
        '--b--',
      ),
      /more than 128/,
    ],
  };
  test.each(Object.entries(REJECTED))('%s', (_, [bytes, message]) => {
    expect(errorOf(bytes)).toMatch(message);
  });
});

test('the boundary is that of the Content-Type, if it is one of a form', () => {
  expect(boundaryOf('multipart/form-data; boundary=abc')).toBe('abc');
  expect(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b:c"')).toBe('a b:c');
  for (const type of [
    'multipart/mixed; boundary=abc',
    'multipart/form-data',
    'multipart/form-data; boundary=',
    'multipart/form-data; boundary="abc "',
    'multipart/form-data; boundary=a"b',
    `multipart/form-data; boundary=${'x'.repeat(71)}`,
    'application/json',
  ])
    expect([type, boundaryOf(type)]).toEqual([type, null]);
});
