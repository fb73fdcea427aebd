import { channel } from 'node:diagnostics_channel';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SLAB_BYTES_MAX, SLAB_FROM_BYTES, TOKENS_MAX } from '#server/wire/bounds.ts';
import { type Body, releaseBody } from '#server/wire/read-body.ts';
import { type BodyChanges, bodyForUpstream, restoreBody } from '#server/wire/splice-body.ts';
import { acquireSlab, SLACK_BYTES } from '#server/wire/slabs.ts';
import { type ParsedRequest, parseChatCompletion } from '#server/wire/request-parser.ts';
import { blanks, hasNoBackslash, valueText } from '../../support/wire/json-text.ts';
import { runs } from '../../fuzz/property-runs.ts';

/** A body as the relay holds it: in a slab that still has the bytes of others in it, or by itself. */
function held(text: string, inSlab: boolean): Body {
  const bytes = Buffer.from(text);
  if (!inSlab) return { bytes, slab: null };
  const slab = acquireSlab(SLAB_BYTES_MAX - SLACK_BYTES).fill('x');
  bytes.copy(slab);
  return { bytes: slab.subarray(0, bytes.length), slab };
}

const UNLIMITED = { tokenLimit: null, tokenLimitMember: 'max_tokens' } as const;

function parsed({ bytes }: Body): ParsedRequest {
  const chat = parseChatCompletion(bytes);
  if (!('scanned' in chat)) throw new Error(chat.message);
  return chat;
}

function asked(text: string, inSlab = false, changes: BodyChanges = UNLIMITED): string {
  const body = held(text, inSlab);
  return bodyForUpstream(body, parsed(body), changes).toString();
}

const without = (value: object): object =>
  Object.fromEntries(Object.entries(value).filter(([name]) => name !== 'stream_options'));

const optionsText = fc.oneof(
  fc.constantFrom(
    'null',
    '{}',
    '{ }',
    '{"include_usage":false}',
    '{"include_obfuscation":false,"include_usage":null}',
  ),
  fc
    .dictionary(fc.string(), fc.jsonValue())
    .map((options) => JSON.stringify({ ...options, include_usage: false }))
    .filter(hasNoBackslash),
);

/** Stands where the options go; no JSON text holds a NUL. */
const HERE = '\0';

/** Members of a streamed request in any order, with `stream_options` among them or not. */
const anyRequest = fc
  .record({
    others: fc.array(
      fc.tuple(
        fc
          .string()
          .map((name) => JSON.stringify(`x-${name}`))
          .filter(hasNoBackslash),
        valueText,
      ),
      { maxLength: 4 },
    ),
    options: fc.option(optionsText),
    order: fc.infiniteStream(fc.nat()),
    gaps: fc.array(blanks, { minLength: 12, maxLength: 12 }),
  })
  .map(({ others, options, order, gaps }) => {
    const members: [string, string][] = [
      ['"model"', '"m"'],
      ['"messages"', '[{"role":"user"}]'],
      ['"stream"', 'true'],
      ...others,
    ];
    if (options !== null) members.push(['"stream_options"', HERE]);
    const shuffled = members
      .map((member) => ({ member, key: order.next().value }))
      .toSorted((one, other) => one.key - other.key);
    const text = shuffled
      .map(
        ({ member: [name, value] }, index) =>
          `${gaps[index]}${name}${gaps[index + 1]}:${value}${gaps[index]}`,
      )
      .join(',');
    const [head, tail] = `${gaps[10]}{${text}}${gaps[11]}`.split(HERE);
    return { head: head as string, options, tail: tail ?? '', text: head + (options ?? '') + (tail ?? '') };
  });

describe('a streamed request that did not ask for usage', () => {
  test.each([false, true])('asks for it, and is otherwise the same value; in a slab: %s', (inSlab) => {
    fc.assert(
      fc.property(anyRequest, ({ text, options }) => {
        const before = JSON.parse(text) as { stream_options?: object };
        const after = JSON.parse(asked(text, inSlab)) as { stream_options: object };
        expect(without(after)).toStrictEqual(without(before));
        expect(after.stream_options).toStrictEqual({
          ...(options === null ? {} : before.stream_options),
          include_usage: true,
        });
      }),
      // A slab is a megabyte to fill.
      runs(inSlab ? 35 : 250),
    );
  });

  test.each([false, true])('keeps every byte that is not about usage; in a slab: %s', (inSlab) => {
    fc.assert(
      fc.property(anyRequest, ({ head, tail, text, options }) => {
        const after = asked(text, inSlab);
        if (options === null) {
          const close = text.lastIndexOf('}');
          // Blanks behind the last brace are no part of the document.
          expect(after.trimEnd()).toBe(`${text.slice(0, close)},"stream_options":{"include_usage":true}}`);
          return;
        }
        expect(after.slice(0, head.length)).toBe(head);
        expect(after.slice(after.length - tail.length)).toBe(tail);
      }),
      runs(inSlab ? 35 : 250),
    );
  });

  test('keeps numbers that no double holds, the order of members and needless escapes', () => {
    const text =
      '{"z":12345678901234567890,"1":-0,"model":"\\u006d","messages":[],' +
      '"stream":true,"a":1e400,"b":"\\ud800"}';
    expect(asked(text)).toBe(`${text.slice(0, -1)},"stream_options":{"include_usage":true}}`);
  });

  test.each([SLAB_FROM_BYTES, SLAB_BYTES_MAX - 100])(
    'of %i bytes is changed within its slab, not copied',
    (size) => {
      const head = '{"model":"m","stream":true,"messages":["';
      const text = `${head}${'x'.repeat(size - head.length - 3)}"]}`;
      const body = held(text, true);
      const chat = parseChatCompletion(body.bytes);
      if (!('scanned' in chat)) throw new Error(chat.message);
      const sent = bodyForUpstream(body, chat, UNLIMITED);
      expect(sent.buffer).toBe(body.bytes.buffer);
      expect(sent.toString()).toBe(`${text.slice(0, -1)},"stream_options":{"include_usage":true}}`);
    },
  );
});

describe('a request goes out as the bytes that came in', () => {
  test.each([
    ['it is not streamed', '{"model":"m","messages":[] }'],
    ['it is said not to be streamed', '{"model":"m","messages":[],"stream":false,"stream_options":null}'],
    [
      'it asks for usage itself',
      '{"stream_options":{"include_usage":true,"include_obfuscation":false},' +
        '"model":"m","messages":[],"stream":true}\n',
    ],
  ])('when %s', (_, text) => {
    const body = held(text, false);
    const chat = parseChatCompletion(body.bytes);
    if (!('scanned' in chat)) throw new Error(chat.message);
    expect(bodyForUpstream(body, chat, UNLIMITED)).toBe(body.bytes);
  });
});

describe('a limit on the reply', () => {
  const limited = (
    text: string,
    tokenLimit: number,
    inSlab = false,
    tokenLimitMember: BodyChanges['tokenLimitMember'] = 'max_tokens',
  ): string => asked(text, inSlab, { tokenLimit, tokenLimitMember });

  test.each([false, true])(
    "replaces the client's own, under either field name, and changes nothing else; in a slab: %s",
    (inSlab) => {
      const own = fc.constantFrom('max_tokens', 'max_completion_tokens');
      const count = fc.nat(TOKENS_MAX);
      fc.assert(
        fc.property(anyRequest, fc.option(own), count, count, (request, member, sent, limit) => {
          const text =
            member === null ? request.text : request.text.replace(/\}(\s*)$/, `,"${member}":${sent}}$1`);
          const { stream_options: _options, ...after } = JSON.parse(limited(text, limit, inSlab)) as Record<
            string,
            unknown
          >;
          const { stream_options: _own, ...before } = JSON.parse(text) as Record<string, unknown>;
          expect(after).toStrictEqual({ ...before, [member ?? 'max_tokens']: limit });
        }),
        runs(inSlab ? 20 : 175),
      );
    },
  );

  test('takes the place of both when both were sent', () => {
    const text = '{"max_tokens":9,"model":"m","messages":[],"max_completion_tokens":null}';
    expect(limited(text, 5)).toBe('{"max_tokens":5,"model":"m","messages":[],"max_completion_tokens":5}');
  });

  test('goes by the name that the upstream reads where the client sent none', () => {
    const text = '{"model":"m","messages":[],"stream":true}';
    const sent = limited(text, 7, false, 'max_completion_tokens');
    expect(sent).toBe(
      '{"model":"m","messages":[],"stream":true,' +
        '"stream_options":{"include_usage":true},"max_completion_tokens":7}',
    );
  });

  test('fits into the slack behind a body that fills its slab', () => {
    const head = '{"model":"m","stream":true,"messages":["';
    const text = `${head}${'x'.repeat(SLAB_BYTES_MAX - 150 - head.length)}"]}`;
    expect(JSON.parse(limited(text, TOKENS_MAX, true, 'max_completion_tokens'))).toMatchObject({
      max_completion_tokens: TOKENS_MAX,
    });
  });
});

describe('the name of the model', () => {
  const named = (text: string, model: string, inSlab = false): string =>
    asked(text, inSlab, { ...UNLIMITED, model });

  test.each([false, true])(
    'is the one that the upstream knows, and all else stays as it was; in a slab: %s',
    (inSlab) => {
      fc.assert(
        fc.property(anyRequest, fc.string({ minLength: 1 }), ({ text }, model) => {
          const { stream_options: _options, ...after } = JSON.parse(named(text, model, inSlab)) as Record<
            string,
            unknown
          >;
          const { stream_options: _own, ...before } = JSON.parse(text) as Record<string, unknown>;
          expect(after).toStrictEqual({ ...before, model });
        }),
        runs(inSlab ? 20 : 175),
      );
    },
  );

  test('is as the client wrote it where the upstream knows the same', () => {
    expect(named('{"model":"\\u006d","messages":[]}', 'm')).toBe('{"model":"\\u006d","messages":[]}');
  });

  test('changes within recycled memory, not in memory of its own', () => {
    const body = held(`{"model":"m","messages":["${'x'.repeat(SLAB_FROM_BYTES)}"]}`, true);
    const sent = bodyForUpstream(body, parsed(body), { ...UNLIMITED, model: 'another' });
    expect(sent.buffer).toBe(body.copy?.buffer);
    expect(sent.buffer).not.toBe(body.bytes.buffer);
    expect(bodyForUpstream(body, parsed(body), { ...UNLIMITED, model: 'a-third' }).buffer).toBe(sent.buffer);
  });

  test('may make a body outgrow its slab', () => {
    const body = held(`{"model":"m","messages":["${'x'.repeat(SLAB_BYTES_MAX - 200)}"]}`, true);
    const sent = bodyForUpstream(body, parsed(body), { ...UNLIMITED, model: 'y'.repeat(256) });
    expect(JSON.parse(sent.toString())).toMatchObject({ model: 'y'.repeat(256) });
  });
});

describe('an upstream that takes no stream options', () => {
  const refusing = (text: string): string =>
    asked(text, false, { ...UNLIMITED, supportsStreamOptions: false });

  test("is not asked for usage, and the client's own options are set to nothing", () => {
    expect(refusing('{"model":"m","messages":[],"stream":true}')).toBe(
      '{"model":"m","messages":[],"stream":true}',
    );
    expect(
      refusing('{"model":"m","stream_options":{"include_usage":true},"messages":[],"stream":true}'),
    ).toBe('{"model":"m","stream_options":null,"messages":[],"stream":true}');
  });
});

describe('a body that goes to one upstream after another', () => {
  const changes = fc.record({
    model: fc.constantFrom('m', 'another', 'a-third-one'),
    streamOptions: fc.constantFrom('taken' as const, 'refused' as const),
    tokenLimit: fc.constantFrom(null, 7, TOKENS_MAX),
    tokenLimitMember: fc.constantFrom('max_tokens' as const, 'max_completion_tokens' as const),
  });

  test.each([false, true])('is for each as if it were the first; in a slab: %s', (inSlab) => {
    fc.assert(
      fc.property(anyRequest, fc.array(changes, { minLength: 2, maxLength: 4 }), ({ text }, attempts) => {
        const body = held(text, inSlab);
        const chat = parsed(body);
        for (const each of attempts)
          expect(bodyForUpstream(body, chat, each).toString()).toBe(asked(text, inSlab, each));
        restoreBody(body);
        expect(body.bytes.toString()).toBe(text);
      }),
      runs(inSlab ? 25 : 175),
    );
  });
});

describe('the memory of a body', () => {
  const sendHeaders = channel('undici:client:sendHeaders');
  /** What Node reports a connection, as far as it matters here. */
  const connection = (writableLength: number, destroyed = false): object => ({ writableLength, destroyed });
  /** Sends a body over these connections, one after another, and reports whether its memory is used again. */
  const isUsedAgain = (...sockets: object[]): boolean => {
    const body = held('{"model":"m","messages":[]}', true);
    const { slab } = body;
    for (const socket of sockets) sendHeaders.publish({ request: { body: body.bytes }, socket });
    releaseBody(body);
    return held('{"model":"m","messages":[]}', true).slab === slab;
  };

  test('is reused once every connection has written it, those of earlier attempts too', () => {
    expect(isUsedAgain()).toBe(true);
    expect(isUsedAgain(connection(0))).toBe(true);
    expect(isUsedAgain(connection(0), connection(0))).toBe(true);
    expect(isUsedAgain(connection(9), connection(0))).toBe(false);
    expect(isUsedAgain(connection(0), connection(9))).toBe(false);
    expect(isUsedAgain(connection(0, true), connection(0))).toBe(false);
  });

  test('goes back but once', () => {
    const body = held('{"model":"m","messages":[]}', true);
    bodyForUpstream(body, parsed(body), { ...UNLIMITED, model: 'n' });
    releaseBody(body);
    releaseBody(body);
    const taken = Array.from({ length: 3 }, () => {
      return held('{"model":"m","messages":[]}', true).slab;
    });
    expect(new Set(taken).size).toBe(3);
  });
});
