import type { Random } from '../chaos/random.ts';
import { chance, jsonText, mutated, objectText, pick } from './pieces.ts';

/** Random replies of an upstream, as bytes. */

/** The upstream's credential, which no reply to a client may contain. */
export const CANARY = 'Canary7f3a9c51be024d0e90d1aa00c91e6bf6';

const WRITTEN: readonly ((secret: string) => string)[] = [
  (secret) => secret,
  (secret) => Array.from(secret, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
  (secret) => Buffer.from(`u:${secret}`).toString('base64'),
  (secret) => Buffer.from(secret).toString('base64url'),
  (secret) => Array.from(secret, (each) => `%${each.charCodeAt(0).toString(16)}`).join(''),
];

/** Whether a text contains the canary, plainly or in base64. */
export function canaryLeaks(text: string): boolean {
  const unescaped = text
    .replace(/\\u([0-9a-fA-F]{4})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/%([0-9a-fA-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const decoded = (text.match(/[\w+/-]{40,}/g) ?? []).map((each) =>
    Buffer.from(each, 'base64').toString('latin1'),
  );
  return [text, unescaped, ...decoded].some((each) => each.includes(CANARY));
}

const text = (random: Random): string =>
  chance(random, 4)
    ? `"key ${pick(random, WRITTEN)(CANARY)}!"`
    : JSON.stringify('word '.repeat(random.below(9)));
const tokens = (random: Random): string =>
  pick(random, ['0', '7', '1e308', '2000000000', '-5', 'null', '"9"', '12.5']);

function usage(random: Random): string {
  return objectText(random, {
    [pick(random, ['prompt_tokens', 'input_tokens'])]: tokens(random),
    [pick(random, ['completion_tokens', 'output_tokens', 'other'])]: tokens(random),
    ...(chance(random, 2) ? { total_tokens: tokens(random) } : {}),
    ...(chance(random, 3) ? { completion_tokens_details: `{"reasoning_tokens":${tokens(random)}}` } : {}),
  });
}

const error = (random: Random): string =>
  pick(random, [text(random), `{"message":${text(random)},"param":${text(random)}}`, jsonText(random)]);

export function jsonBody(random: Random): string {
  switch (random.below(5)) {
    case 0:
      return objectText(random, { error: error(random) });
    case 1:
      return jsonText(random);
    case 2:
      return `<html>${pick(random, WRITTEN)(CANARY)}</html>`;
    default:
      return objectText(random, {
        choices: `[{"index":0,"message":{"content":${text(random)}},"finish_reason":"stop"}]`,
        usage: usage(random),
      });
  }
}

const EVENTS: readonly ((random: Random) => string)[] = [
  (random) => `{"choices":[{"index":0,"delta":{"content":${text(random)}}}]}`,
  (random) =>
    `{"choices":[{"delta":{},"finish_reason":${pick(random, ['"stop"', 'null', '"error"', '7'])}}]}`,
  (random) => `{"choices":[],"usage":${usage(random)}}`,
  (random) => `{"error":${error(random)}}`,
  () => '[DONE]',
  (random) => jsonText(random),
  (random) => `{"type":"message_start","message":{"id":"m","model":"m","usage":${usage(random)}}}`,
  (random) =>
    `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":${text(random)}}}`,
  (random) => `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":${text(random)}}}`,
  (random) => `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":${usage(random)}}`,
  () => '{"type":"message_stop"}',
  (random) => `{"type":"response.output_text.delta","delta":${text(random)}}`,
  (random) => `{"type":"response.completed","response":{"usage":${usage(random)}}}`,
  (random) => `{"type":"error","error":${error(random)}}`,
];

/** A stream of events with any line ends, comments and odd fields, sometimes with a large one. */
export function streamBody(random: Random): string {
  const end = pick(random, ['\n', '\n', '\r\n', '\r']);
  let body = '';
  for (let events = random.below(12); events > 0; events--) {
    if (chance(random, 6))
      body += pick(random, [': ping', 'event: error', 'id: 7', 'retry', ': ', 'data']) + end;
    if (chance(random, 600)) body += `data: {"a":"${'x'.repeat(random.below(1_500_000))}"}${end}${end}`;
    body += pick(random, ['data: ', 'data:']) + pick(random, EVENTS)(random) + end;
    if (!chance(random, 15)) body += end;
  }
  return body;
}

/** A whole reply, from informational ones to its end, and whether the connection ends behind it. */
export function reply(random: Random, isSse: boolean): { bytes: Buffer; isClosed: boolean } {
  const early = pick(random, ['100 Continue', '102 Processing', '103 Early Hints']);
  const informational = chance(random, 5) ? `HTTP/1.1 ${early}\r\n\r\n`.repeat(random.below(150)) : '';
  const isStream = chance(random, 8) ? !isSse : isSse;
  const body = mutated(random, Buffer.from(isStream ? streamBody(random) : jsonBody(random)), 4);
  const status = chance(random, 3) ? pick(random, [400, 404, 422, 401, 429, 500, 503, 204, 302, 999]) : 200;
  const usual = isStream ? 'text/event-stream' : 'application/json';
  const type = chance(random, 6) ? pick(random, ['', 'text/html', `${usual}, text/html`, 'nonsense']) : usual;
  const headers = [
    ...(type === '' ? [] : [`content-type: ${type}`]),
    ...(chance(random, 8) ? [`x-daybook-unsupported: ${CANARY}`, `retry-after: ${CANARY}`] : []),
    ...(chance(random, 20) ? Array.from({ length: random.below(3_000) }, (_, at) => `x-flood-${at}: y`) : []),
  ];
  const framing = random.below(6);
  const isClosed = framing === 0 || chance(random, 5);
  let framed = body;
  if (framing === 1) headers.push(`content-length: ${Math.max(0, body.length + random.below(11) - 5)}`);
  else if (framing === 2) {
    headers.push('transfer-encoding: chunked');
    framed = chunked(random, body);
  } else if (framing > 2) headers.push(`content-length: ${body.length}`);
  const head = `${informational}HTTP/1.1 ${status} X\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n`;
  return { bytes: mutated(random, Buffer.concat([Buffer.from(head), framed]), 12), isClosed };
}

function chunked(random: Random, body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const size = 1 + random.below(pick(random, [4, 60, 3_000]));
    const part = body.subarray(at, at + size);
    const stated = chance(random, 40) ? part.length + 3 : part.length;
    parts.push(Buffer.from(`${stated.toString(16)}\r\n`), part, Buffer.from('\r\n'));
    at += size;
  }
  return Buffer.concat([...parts, Buffer.from(chance(random, 8) ? '' : '0\r\n\r\n')]);
}
