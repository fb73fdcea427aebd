import { createHash } from 'node:crypto';
import type { OutputLine } from '#server/batches/output-line.ts';
import { asRecord } from '#server/wire/counts.ts';
import { JsonError, scanObject, valueOf } from '#server/wire/json.ts';

/** Errors of the request itself; the others are the provider's. */
const REJECTIONS = new Set(['invalid_request_error', 'request_too_large', 'not_found_error']);

/** A line of the results of a message batch. Pure. @returns null: it is another line. */
export function readResultLine(bytes: Buffer): OutputLine | null {
  try {
    const { members } = scanObject(bytes, ['custom_id', 'result']);
    const id = members.get('custom_id');
    const span = members.get('result');
    const name = id && valueOf(bytes, id);
    if (typeof name !== 'string' || !span) return null;
    const result = bytes.subarray(span.start, span.end);
    const { members: own } = scanObject(result, ['type'], ['message', 'error']);
    const value = (member: string): unknown => {
      const at = own.get(member);
      return at && valueOf(result, at);
    };
    const customId = createHash('sha256').update(name).digest('hex');
    switch (value('type')) {
      case 'succeeded': {
        const message = own.get('message');
        const body = message && result.subarray(message.start, message.end);
        return { customId, reply: body ? { status: 200, requestId: null, body } : null, errorCode: null };
      }
      case 'errored':
        return { customId, reply: null, errorCode: codeOf(value('error')) };
      case 'canceled':
        return { customId, reply: null, errorCode: 'cancelled' };
      case 'expired':
        return { customId, reply: null, errorCode: 'expired' };
      default:
        return { customId, reply: null, errorCode: null };
    }
  } catch (error) {
    if (error instanceof JsonError) return null;
    throw error;
  }
}

/** @param error of a result: the whole reply to a request, with its error in it. */
function codeOf(error: unknown): string | null {
  const type = asRecord(asRecord(error)?.['error'])?.['type'];
  return typeof type === 'string' && REJECTIONS.has(type) ? 'failed' : null;
}
