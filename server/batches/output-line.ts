import { createHash } from 'node:crypto';
import type { EndReason } from '#db/events/endings.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import type { BatchLine } from '#db/stored/batches.ts';
import { BATCH_TIER } from '#server/batches/plan-line.ts';
import { readMessage } from '#server/providers/anthropic/messages-route.ts';
import { parseImagesReply } from '#server/providers/openai/images-reply.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { readResponse } from '#server/providers/openai/responses.ts';
import type { JsonReply } from '#server/providers/provider.ts';
import { type CallEnd, jsonUsage, unsentEnd } from '#server/relay/reply-usage.ts';
import { capOutput } from '#server/relay/settle.ts';
import { asRecord } from '#server/wire/counts.ts';
import { JsonError, scanObject, type Span, valueOf } from '#server/wire/json.ts';
import type { Redactor } from '#server/wire/redactor.ts';
import { allFacts, providerText } from '#server/wire/reply-facts.ts';

/** A line of the output or error file of a batch. Pure. */
export type OutputLine = {
  /** SHA-256 of the client's custom_id, in hex. */
  customId: string;
  /** Null: an error in place of a reply. */
  reply: { status: number; requestId: string | null; body: Buffer } | null;
  /** The code of the provider's error in place of a reply. */
  errorCode: string | null;
};

/** @returns null: it is no line of an output file. */
export function readOutputLine(bytes: Buffer): OutputLine | null {
  try {
    const { members } = scanObject(bytes, ['custom_id', 'response', 'error']);
    const id = members.get('custom_id');
    const customId = id && valueOf(bytes, id);
    if (typeof customId !== 'string') return null;
    const response = members.get('response');
    const error = members.get('error');
    return {
      customId: createHash('sha256').update(customId).digest('hex'),
      reply: response && bytes[response.start] === OPEN_BRACE ? readReply(bytes, response) : null,
      errorCode: providerText(asRecord(error && valueOf(bytes, error))?.['code']),
    };
  } catch (error) {
    if (error instanceof JsonError) return null;
    throw error;
  }
}

const OPEN_BRACE = 0x7b;

function readReply(bytes: Buffer, { start, end }: Span): OutputLine['reply'] {
  const response = bytes.subarray(start, end);
  const { members } = scanObject(response, ['status_code', 'request_id', 'body']);
  const value = (name: string): unknown => {
    const span = members.get(name);
    return span && valueOf(response, span);
  };
  const status = value('status_code');
  const body = members.get('body');
  if (typeof status !== 'number' || !body) return null;
  return {
    status: Number.isInteger(status) && status >= 100 && status < 600 ? status : 500,
    requestId: providerText(value('request_id')),
    body: response.subarray(body.start, body.end),
  };
}

/** How a line ended, by its output. */
export function endOfLine(
  { reply, errorCode }: OutputLine,
  { prompt_tokens, body_bytes, output_limit, choices }: BatchLine,
  route: RelayedRoute,
  redactor: Redactor,
): CallEnd {
  if (reply === null) return endByCode(errorCode);
  const { status, requestId, body } = reply;
  const read = status >= 200 && status < 300 ? readBody(body, route) : null;
  if (read === null) return unsentEnd(status < 500 ? 'upstream_rejected' : 'upstream_error', status);
  const size = {
    ...{ promptEstimate: prompt_tokens, requestBytes: body_bytes, outputLimit: output_limit, choices },
  };
  const usage = jsonUsage(status, size, read, body.length);
  const head = { requestId, edgeId: null, generatedId: null, statedCost: null };
  const facts = { ...allFacts(usage.facts, head, redactor), serviceTier: BATCH_TIER };
  const reason: EndReason = read.failed ? 'upstream_error' : 'completed';
  const end: CallEnd = { ...usage, facts, reason, firstByteMs: null };
  return output_limit === null ? end : capOutput(end, output_limit);
}

function readBody(body: Buffer, route: RelayedRoute): JsonReply | null {
  switch (route) {
    case '/v1/responses':
      return readResponse(body, {});
    case '/v1/images/generations':
      return parseImagesReply(body);
    case '/v1/messages':
      return readMessage(body);
    default:
      return parseJsonReply(body);
  }
}

/** How a line ended that has no reply. */
export function endByCode(code: string | null): CallEnd {
  switch (code) {
    case 'batch_cancelled':
    case 'cancelled':
      return unsentEnd('client_disconnected');
    case 'batch_expired':
    case 'expired':
      return unsentEnd('timed_out', 504);
    case 'failed':
      return unsentEnd('upstream_rejected', 400);
    default:
      return unsentEnd('upstream_error', 502);
  }
}
