import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Usage } from '#db/money.ts';
import { PROTOCOLS, type Protocol } from '#server/protocols/protocol.ts';
import { ResponsesReplyReader } from '#server/protocols/responses/read-reply.ts';
import type { ReplyEvent } from '#server/protocols/reply-events.ts';
import { TranslatedSse } from '#server/protocols/translated-sse.ts';
import { UPSTREAMS } from '#server/protocols/upstreams.ts';
import { dataOf } from '#server/wire/sse.ts';
import { providerCallOf } from '../../support/protocols/provider-call.ts';
import { READERS, readStream } from '../../support/protocols/read-replies.ts';
import { chunksOf, foundIn, writerOf } from '../../support/protocols/replies.ts';

/** Streams of providers as they were recorded, for clients of each protocol. */

const FIXTURES = join(import.meta.dirname, '../../fixtures');
const FOLDERS: Record<Protocol, [folder: string, name: RegExp]> = {
  chat: ['openai', /^(?!broken).*\.sse$/],
  responses: ['responses', /^(?:text|tool-call|incomplete)\.sse$/],
  messages: ['anthropic', /^(?!broken).*\.sse$/],
  gemini: ['bridge', /^google-(?:text|tools|thinking|image|blocked)\.sse$/],
};
const CALL = providerCallOf();
const CHUNK_BYTES = 61;
const EVENT_TYPE = /"type": ?"([^"]*)"/;

const recorded = PROTOCOLS.flatMap((upstream) => {
  const [folder, name] = FOLDERS[upstream];
  return readdirSync(join(FIXTURES, folder))
    .filter((file) => name.test(file))
    .map((file) => ({ upstream, file, bytes: readFileSync(join(FIXTURES, folder, file)) }));
});

const counts = (usage: Usage | null): object | null =>
  usage && {
    input: usage.input,
    cached: usage.cached,
    output: usage.output,
    reasoning: usage.reasoning,
  };

/** Some protocols have refusals as text. @param isTextAlone whether the text has nothing else in it. */
function comparable(events: readonly ReplyEvent[], isTextAlone: boolean): object {
  const { text, refusal, ...found } = foundIn(events);
  return { ...found, said: isTextAlone ? text + refusal : null };
}

describe.each(PROTOCOLS)('for a client of %s', (client) => {
  test.each(recorded)('$upstream, $file', ({ upstream, bytes }) => {
    const passed = UPSTREAMS[upstream].sse(CALL);
    passed.push(bytes);
    passed.flush();
    const writer = writerOf(client, true);
    const sse = new TranslatedSse(UPSTREAMS[upstream].sse(CALL), READERS[upstream](), writer, () => '');
    const sent = chunksOf(bytes, [CHUNK_BYTES]).map((chunk) => sse.push(chunk));
    const stream = Buffer.concat([...sent, sse.flush()].filter((each) => each !== null)).toString();

    expect([sse.complete, sse.failed]).toEqual([true, false]);
    expect([sse.usage, sse.facts, sse.countedTokens]).toEqual([
      passed.usage,
      passed.facts,
      passed.countedTokens,
    ]);
    const events = readStream(upstream, bytes.toString());
    const read = readStream(client, stream);
    // Sources and images stand in the text of protocols without a place for them.
    const isTextAlone = !events.some(({ type }) => type === 'citation' || type === 'image');
    expect(comparable(read, isTextAlone)).toEqual(comparable(events, isTextAlone));
    const own = UPSTREAMS[client].sse(CALL);
    own.push(Buffer.from(stream));
    own.flush();
    if (passed.usage) expect(counts(own.usage)).toEqual(counts(passed.usage));
  });
});

test.each(recorded.filter(({ upstream }) => upstream === 'responses'))(
  'an event of $upstream that is not parsed has nothing to read: $file',
  ({ bytes }) => {
    const events = bytes.toString('latin1').split(/(?<=\n\n)/);
    const unread = events.filter((event) => new ResponsesReplyReader('').isUnread(event));
    expect(unread.map((event) => EVENT_TYPE.exec(event)?.[1])).toContain('response.in_progress');
    // Not even where the events before it are missing.
    for (const event of unread)
      expect(new ResponsesReplyReader('').read(JSON.parse(dataOf(event) ?? ''))).toEqual([]);
  },
);
