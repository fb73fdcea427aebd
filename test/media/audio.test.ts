import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { openRequests } from '../support/faults.ts';
import { FORM_TYPE, formOf, wavOf } from '../support/wire/media.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type PlainUpstream, startPlainUpstream } from '../support/plain-upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Transcriptions, translations and speech: metered by seconds, characters or the tokens of their models. */

let upstream: PlainUpstream;
let relay: TestRelay;
let client: OpenAI;
const HOUR = 360_000_000;
const CHARACTERS = 15_000_000_000;
const AUDIO = ['/v1/audio/transcriptions', '/v1/audio/translations', '/v1/audio/speech'] as const;

beforeAll(async () => {
  upstream = await startPlainUpstream(() => ({ body: '{}' }));
  relay = await startRelay();
  await declare(relay, {
    upstreams: {
      audio: {
        base_url: `${upstream.url}/v1`,
        models: ['whisper', 'scribe', 'tts', 'voice'],
        routes: [...AUDIO],
      },
    },
    models: { alias: { targets: [{ upstream: 'audio', model: 'whisper' }] } },
  });
  await relay.control(async (control) => {
    for (const model of ['whisper', 'alias']) await control.setPrice(model, { base: { media_hour: HOUR } });
    await control.setPrice('tts', { base: { characters: CHARACTERS } });
    await control.setPrice('scribe', {
      base: { input: 2_000_000_000, audio_input: 6_000_000_000, output: 0 },
    });
  });
  client = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 0 });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  upstream.requests.length = 0;
});

async function lastSettled(): Promise<EventOf<'request.settled'>> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const last = log.findLast(({ event }) => event.type === 'request.settled')?.event;
  if (last?.type !== 'request.settled') throw new Error('nothing was settled');
  return last;
}
const transcribe = (body: Buffer, key = relay.key, route = '/audio/transcriptions'): Promise<Response> =>
  fetch(`${relay.baseUrl}${route}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': FORM_TYPE },
    body: new Uint8Array(body),
  });
const codeOf = async (reply: Response): Promise<string> =>
  ((await reply.json()) as { error: { code: string } }).error.code;

describe('a transcription', () => {
  test('of the OpenAI client passes byte for byte and is charged the seconds that are reported', async () => {
    const reply = '{"text":"ebb and flow","usage":{"type":"duration","seconds":9}}';
    upstream.reply = () => ({ body: reply });
    const file = await toFile(wavOf(8.5), 'tide.wav');
    const { text } = await client.audio.transcriptions.create({ file, model: 'whisper', language: 'en' });
    expect(text).toBe('ebb and flow');
    const [sent] = upstream.requests;
    expect(sent?.path).toBe('/v1/audio/transcriptions');
    expect(sent?.body.includes(wavOf(8.5))).toBe(true);
    expect(await lastSettled()).toMatchObject({
      ...{ route: '/v1/audio/transcriptions', usage_source: 'provider', input_tokens: 0, output_tokens: 0 },
      ...{ usage_details: { media_ms: 9_000 }, cost_nanousd: (HOUR / 3_600) * 9 },
    });
  });

  test('is charged the duration of a verbose reply', async () => {
    upstream.reply = () => ({ body: `{"duration":"2.5","text":"${'tide '.repeat(4_000)}","segments":[]}` });
    await transcribe(
      formOf([
        ['model', 'whisper'],
        ['file', wavOf(2)],
      ]),
    );
    expect(await lastSettled()).toMatchObject({
      usage_source: 'provider',
      usage_details: { media_ms: 2_500 },
    });
  });

  test('as a text is charged the length in the header of its file, marked as an estimate', async () => {
    upstream.reply = () => ({ type: 'text/plain; charset=utf-8', body: 'ebb and flow' });
    const reply = await transcribe(
      formOf([
        ['file', wavOf(4.25)],
        ['model', 'whisper'],
      ]),
    );
    expect([reply.status, reply.headers.get('content-type'), await reply.text()]).toEqual([
      ...[200, 'text/plain; charset=utf-8', 'ebb and flow'],
    ]);
    expect(await lastSettled()).toMatchObject({
      ...{ usage_source: 'estimated', usage_details: { media_ms: 4_250 }, output_tokens: 0 },
    });
  });

  test('of a model with tokens is charged those, its audio apart', async () => {
    const details = '"input_token_details":{"text_tokens":4,"audio_tokens":90}';
    upstream.reply = () => ({
      body: `{"text":"x","usage":{"type":"tokens","input_tokens":94,${details},"output_tokens":5}}`,
    });
    await transcribe(
      formOf([
        ['model', 'scribe'],
        ['file', wavOf(9)],
      ]),
    );
    expect(await lastSettled()).toMatchObject({
      ...{
        usage_source: 'provider',
        input_tokens: 94,
        output_tokens: 5,
        cost_nanousd: 4 * 2_000 + 90 * 6_000,
      },
      ...{ usage_details: { audio_input_tokens: 90 } },
    });
  });

  test('as a stream passes its events and is charged the usage of the last one', async () => {
    const events =
      'data: {"type":"transcript.text.delta","delta":"ebb"}\n\n' +
      'data: {"type":"transcript.text.done","text":"ebb","usage":{"type":"tokens","input_tokens":14,' +
      '"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":3,"total_tokens":17}}\n\n';
    upstream.reply = () => ({ type: 'text/event-stream', body: events });
    const file = await toFile(wavOf(1), 'tide.wav');
    const stream = await client.audio.transcriptions.create({ file, model: 'scribe', stream: true });
    const types = (await Array.fromAsync(stream)).map(({ type }) => type);
    expect(types).toEqual(['transcript.text.delta', 'transcript.text.done']);
    expect(await lastSettled()).toMatchObject({
      usage_source: 'provider',
      input_tokens: 14,
      output_tokens: 3,
    });
  });

  test('whose stream breaks off ends in an error event and is charged by its file', async () => {
    upstream.reply = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"type":"transcript.text.delta","delta":"ebb"}\n\n', () => response.destroy());
      return null;
    };
    const form = formOf([
      ['model', 'whisper'],
      ['stream', 'true'],
      ['file', wavOf(3)],
    ]);
    expect(await (await transcribe(form)).text()).toContain('"upstream_disconnected"');
    expect(await lastSettled()).toMatchObject({
      ...{
        end_reason: 'upstream_disconnected',
        usage_source: 'estimated',
        usage_details: { media_ms: 3_000 },
      },
    });
  });

  test('is sent under the name that its target has for the model', async () => {
    upstream.reply = () => ({ body: '{"text":"x"}' });
    expect(
      (
        await transcribe(
          formOf([
            ['model', 'alias'],
            ['file', wavOf(1)],
          ]),
        )
      ).status,
    ).toBe(200);
    const sent = upstream.requests[0]?.body.toString('latin1') ?? '';
    expect(/name="model"\r\n\r\n([^\r]*)\r\n/.exec(sent)?.[1]).toBe('whisper');
    expect((await lastSettled()).model).toBe('alias');
  });

  test('reserves the price of its length', async () => {
    await relay.createAccount('listeners');
    const { secret } = await relay.createKey({ account: 'listeners' });
    const quota = {
      meter: 'cost_nanousd',
      window: 'month',
      limit: HOUR / 3_600,
      enforcement: 'soft',
    } as const;
    await relay.control((control) => control.overrideTerms('listeners', { quotas: [quota] }, 'keep'));
    upstream.reply = () => ({ body: '{"text":"x","usage":{"type":"duration","seconds":1}}' });
    expect(
      (
        await transcribe(
          formOf([
            ['model', 'whisper'],
            ['file', wavOf(2)],
          ]),
          secret,
        )
      ).status,
    ).toBe(429);
    expect(
      (
        await transcribe(
          formOf([
            ['model', 'whisper'],
            ['file', wavOf(1)],
          ]),
          secret,
        )
      ).status,
    ).toBe(200);
  });

  test.each<[string, Buffer, number, string]>([
    ['without a model', formOf([['file', wavOf(1)]]), 400, 'missing_required_parameter'],
    ['without a file', formOf([['model', 'whisper']]), 400, 'missing_required_parameter'],
    [
      'with two models',
      formOf([
        ['model', 'whisper'],
        ['file', wavOf(1)],
        ['model', 'tts'],
      ]),
      400,
      'duplicate_parameter',
    ],
    [
      'that ends early',
      formOf([
        ['model', 'whisper'],
        ['file', wavOf(1)],
      ]).subarray(0, 900),
      400,
      'invalid_form',
    ],
    [
      'of another model',
      formOf([
        ['model', 'nobody-has-it'],
        ['file', wavOf(1)],
      ]),
      404,
      'model_not_found',
    ],
  ])('%s is rejected and not sent', async (_, form, status, code) => {
    const reply = await transcribe(form);
    expect([reply.status, await codeOf(reply)]).toEqual([status, code]);
    expect(upstream.requests).toEqual([]);
  });

  test('that is no form is a 415', async () => {
    const reply = await fetch(`${relay.baseUrl}/audio/transcriptions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${relay.key}`, 'content-type': 'application/json' },
      body: '{"model":"whisper"}',
    });
    expect([reply.status, await codeOf(reply)]).toEqual([415, 'unsupported_media_type']);
  });

  test('and a translation are rejected under a hard quota, which bounds no recording', async () => {
    await relay.createAccount('strict');
    const { secret } = await relay.createKey({ account: 'strict' });
    const quota = { meter: 'tokens', window: 'month', limit: 1_000_000, enforcement: 'hard' } as const;
    await relay.control((control) => control.overrideTerms('strict', { quotas: [quota] }, 'keep'));
    for (const route of ['/audio/transcriptions', '/audio/translations']) {
      const reply = await transcribe(
        formOf([
          ['model', 'whisper'],
          ['file', wavOf(1)],
        ]),
        secret,
        route,
      );
      expect([route, reply.status, await codeOf(reply)]).toEqual([route, 400, 'invalid_value']);
    }
    expect(upstream.requests).toEqual([]);
  });
});

describe('speech', () => {
  const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, index) => (index * 7) % 256));

  test('of the OpenAI client passes byte for byte and is charged its characters', async () => {
    upstream.reply = () => ({ type: 'audio/mpeg', body: bytes });
    const reply = await client.audio.speech.create({
      model: 'tts',
      voice: 'alloy',
      input: 'Ebbe 🌊 und Flut',
    });
    expect(reply.headers.get('content-type')).toBe('audio/mpeg');
    expect(Buffer.from(await reply.arrayBuffer()).equals(bytes)).toBe(true);
    expect(await lastSettled()).toMatchObject({
      ...{ route: '/v1/audio/speech', usage_source: 'counted', input_tokens: 0, output_tokens: 0 },
      ...{ usage_details: { characters: 15 }, cost_nanousd: (CHARACTERS / 1_000_000) * 15 },
    });
  });

  test('of a model with tokens is charged an estimate, which its stream of events makes exact', async () => {
    upstream.reply = () => ({ type: 'audio/wav', body: bytes });
    await client.audio.speech.create({ model: 'voice', voice: 'alloy', input: 'x'.repeat(150) });
    expect(await lastSettled()).toMatchObject({ usage_source: 'estimated', output_tokens: 210 });
    upstream.reply = () => ({
      type: 'text/event-stream',
      body:
        'data: {"type":"speech.audio.delta","audio":"aGVsbG8="}\n\n' +
        'data: {"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101}}\n\n',
    });
    const events = await client.audio.speech.create({
      ...{ model: 'voice', voice: 'alloy', input: 'Ebb', stream_format: 'sse' },
    });
    expect(await events.text()).toContain('speech.audio.done');
    expect(await lastSettled()).toMatchObject({
      usage_source: 'provider',
      input_tokens: 14,
      output_tokens: 101,
    });
  });

  test('that breaks off is cut, with nothing of the relay in the audio, and charged', async () => {
    upstream.reply = (_, response) => {
      response.writeHead(200, { 'content-type': 'audio/mpeg' });
      response.write(bytes, () => response.destroy());
      return null;
    };
    const reply = await client.audio.speech.create({ model: 'tts', voice: 'alloy', input: 'Ebb' });
    await expect(reply.arrayBuffer()).rejects.toThrow();
    expect(await lastSettled()).toMatchObject({
      ...{ end_reason: 'upstream_disconnected', usage_source: 'counted', usage_details: { characters: 3 } },
    });
  });

  test.each([
    [429, 503, 'upstream_rate_limited'],
    [500, 502, 'upstream_error'],
    [400, 400, 'upstream_rejected'],
  ])('that the upstream rejects with %i is a %i', async (status, seen, code) => {
    upstream.reply = () => ({ status, body: '{"error":{"message":"no"}}' });
    const error = await client.audio.speech
      .create({ model: 'tts', voice: 'alloy', input: 'Ebb' })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ status: seen, code });
    expect(await lastSettled()).toMatchObject({ usage_source: 'none' });
  });
});
