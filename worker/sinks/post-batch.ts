import { type Message, post, type Reply } from '../receiver.ts';
import type { Delivered } from './sink.ts';

/** Deliveries by HTTP, as several kinds of sinks make them. */

/** A receiver that needs longer should acknowledge and queue the batch. */
const REQUEST_TIMEOUT_MS = 10_000;

export const isSuccess = (reply: Reply): boolean =>
  'status' in reply && reply.status >= 200 && reply.status < 300;

/** The code of a reply that is no success. */
export const faultOf = (reply: Reply): string => ('status' in reply ? `http_${reply.status}` : reply.fault);

/** Sends one request. Whether an aborted one was received is unknown, as with one that timed out. */
export async function send(request: Omit<Message, 'timeoutMs'>): Promise<Reply> {
  const headers = { 'user-agent': 'daybook', ...request.headers };
  try {
    return await post({ ...request, headers, timeoutMs: REQUEST_TIMEOUT_MS });
  } catch (error) {
    if (!request.signal.aborted) throw error;
    return { fault: 'timed_out' };
  }
}

/** Sends a batch in one request: the receiver acknowledges all events, or none. */
export async function postBatch(
  count: number,
  request: Pick<Message, 'url' | 'headers' | 'body' | 'allowPrivate' | 'signal'>,
): Promise<Delivered> {
  const reply = await send(request);
  return isSuccess(reply) ? { acknowledged: count, fault: null } : { acknowledged: 0, fault: faultOf(reply) };
}
