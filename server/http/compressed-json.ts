import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { contentEncodings } from '#server/http/content-encodings.ts';
import { JSON_COMPRESSED_BYTES_MIN } from '#server/http/bounds.ts';
import { replyOf, sendJson } from '#server/http/respond.ts';

const pack = promisify(gzip);

/**
 * Sends JSON, compressed by a thread of its own if it is long and the client takes gzip.
 *
 * Only for replies without secrets. The length of a compressed reply depends on what repeats in it, so that
 * someone who chooses a part of a reply and sees its length could guess a secret in it (BREACH).
 */
export async function sendCompressedJson(request: Request, response: Response, value: object): Promise<void> {
  const text = JSON.stringify(value);
  const isWorth = text.length >= JSON_COMPRESSED_BYTES_MIN;
  if (!isWorth || !contentEncodings(request.headers['accept-encoding']).has('gzip'))
    return sendJson(response, 200, value);
  const body = await pack(text);
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [
    'content-type',
    'application/json; charset=utf-8',
    'content-encoding',
    'gzip',
    'vary',
    'accept-encoding',
    'content-length',
    String(body.length),
    'x-request-id',
    requestId,
    ...extraHeaders,
  ]);
  response.end(body);
}
