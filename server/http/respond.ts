import type { Request, Response } from 'express';
import type { ServerResponse } from 'node:http';
import type { ApiError } from '#server/errors/api-error.ts';
import { sendError, type Reply } from '#server/relay/reply.ts';

/** Replies of the routes other than relayed ones. The reply's headers are attached to Express' response. */

export type WithReply = ServerResponse & { reply: Reply };

export const replyOf = (response: Response): Reply => (response as unknown as WithReply).reply;

export function sendApiError(request: Request, response: Response, refusal: ApiError): void {
  sendError(request, response, replyOf(response), refusal);
}

export function sendJson(response: Response, status: number, value: unknown): void {
  sendJsonWith(response, status, [], value);
}

/** The same with further headers, as a list of names and values. */
export function sendJsonWith(
  response: Response,
  status: number,
  headers: readonly string[],
  value: unknown,
): void {
  const { requestId, extraHeaders } = replyOf(response);
  const body = JSON.stringify(value);
  response.writeHead(status, [
    'content-type',
    'application/json; charset=utf-8',
    'content-length',
    String(Buffer.byteLength(body)),
    'x-request-id',
    requestId,
    ...extraHeaders,
    ...headers,
  ]);
  response.end(body);
}

/**
 * @param keep how caches may keep it: the value of Cache-Control.
 * @returns null, as a route without an error does.
 */
export function sendBytes(response: Response, body: Buffer, type: string, keep: string): null {
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [
    'content-type',
    type,
    'content-length',
    String(body.length),
    'cache-control',
    keep,
    'x-request-id',
    requestId,
    ...extraHeaders,
  ]);
  response.end(body);
  return null;
}
