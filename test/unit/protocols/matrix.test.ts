import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Usage } from '#db/money.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import { TranslatedSse } from '#server/protocols/translated-sse.ts';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import { type Pair, PAIRS, READERS, readBody, readStream } from '../../support/protocols/read-replies.ts';
import { runs } from '../../fuzz/property-runs.ts';
import { providerCallOf } from '../../support/protocols/provider-call.ts';
import {
  bodyOf,
  chunksOf,
  foundIn,
  replies,
  type Reply,
  streamOf,
  writerOf,
} from '../../support/protocols/replies.ts';

/** Any reply of an upstream of each protocol, in any chunks, for a client of each other one. */

const CALL = providerCallOf();

function usageIn(protocol: Protocol, stream: string): Usage | null {
  const sse = UPSTREAMS[protocol].sse(CALL);
  sse.push(Buffer.from(stream));
  sse.flush();
  expect([sse.complete, sse.failed]).toEqual([true, false]);
  return sse.usage;
}

function translate(
  { upstream, client }: Pair,
  chunks: readonly Buffer[],
): { sse: TranslatedSse; stream: string } {
  const failed = (): string => 'event: error\ndata: {"type":"error"}\n\n';
  const sse = new TranslatedSse(
    UPSTREAMS[upstream].sse(CALL),
    READERS[upstream](),
    writerOf(client, true),
    failed,
  );
  const pushed = chunks.map((chunk) => sse.push(chunk)).filter((bytes) => bytes !== null);
  return { sse, stream: Buffer.concat(pushed).toString() };
}

const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 5 });

describe.each(PROTOCOLS)('a reply in %s', (protocol) => {
  test('is read as it was written, streamed and whole', () => {
    fc.assert(
      fc.property(replies, (reply) => {
        const stream = streamOf(protocol, reply).toString();
        expect(foundIn(readStream(protocol, stream))).toEqual(foundIn(reply.events));
        expect(foundIn(readBody(protocol, bodyOf(protocol, reply)))).toEqual(foundIn(reply.events));
      }),
      runs(30),
    );
  });
});

describe.each(PAIRS)('a reply of $upstream to a client of $client', (pair) => {
  const { upstream, client } = pair;
  const rest = (sse: TranslatedSse): string => (sse.complete ? sse.close() : sse.flush())?.toString() ?? '';

  test('has every text, thought, signature and call, and the usage, in any chunks', () => {
    fc.assert(
      fc.property(replies, sizes, (reply, lengths) => {
        const { sse, stream } = translate(pair, chunksOf(streamOf(upstream, reply), lengths));
        const whole = stream + rest(sse);
        expect(foundIn(readStream(client, whole))).toEqual(foundIn(reply.events));
        expect(sse.usage).toEqual(reply.usage);
        expect(usageIn(client, whole)).toEqual(reply.usage);
      }),
      runs(30),
    );
  });

  test('is the same where it is not streamed', () => {
    fc.assert(
      fc.property(replies, (reply) => {
        const body = bodyOf(upstream, reply);
        const read = UPSTREAMS[upstream].json(body);
        expect(read?.usage ?? null).toEqual(reply.usage);
        const written = bodyOf(client, { events: readBody(upstream, body), usage: read?.usage as Usage });
        expect(foundIn(readBody(client, written))).toEqual(foundIn(reply.events));
        const reported = UPSTREAMS[client].json(written)?.usage ?? null;
        expect(reported).toEqual(reply.usage);
      }),
      runs(30),
    );
  });

  test('that is cut at any byte is complete only if the upstream completed it', () => {
    const cuts = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(replies, sizes, cuts, (reply: Reply, lengths, share) => {
        const bytes = streamOf(upstream, reply);
        const cut = bytes.subarray(0, Math.floor(bytes.length * share));
        const { sse, stream } = translate(pair, chunksOf(cut, lengths));
        const whole = stream + rest(sse);
        const passed = UPSTREAMS[upstream].sse(CALL);
        passed.push(cut);
        passed.flush();
        expect(sse.complete).toBe(passed.complete);
        expect([sse.countedTokens, sse.facts]).toEqual([passed.countedTokens, passed.facts]);
        const reader = UPSTREAMS[client].sse(CALL);
        reader.push(Buffer.from(whole));
        expect(reader.complete).toBe(sse.complete);
        expect(whole === '' || whole.endsWith('\n\n')).toBe(true);
      }),
      runs(30),
    );
  });
});
