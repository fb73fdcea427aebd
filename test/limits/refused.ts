import type { Figures } from '#server/limits/figures.ts';
import type { ChatReply } from '../support/client.ts';

/** The limit in the error of a rejected call. */
export function limitOf(reply: ChatReply): Figures {
  const { error } = reply.json as { error: { limit?: Figures } };
  if (!error.limit) throw new Error(`the error has no limit: ${reply.body.toString()}`);
  return error.limit;
}

/** The units that the rejected call needed. */
export function needOf(reply: ChatReply): number {
  const { error } = reply.json as { error: { message: string } };
  const [, needed, atMost] =
    /this request needs (\d+)|the (\d+) that this request may need/.exec(error.message) ?? [];
  const need = needed ?? atMost;
  if (need === undefined) throw new Error(`the message names no need: ${error.message}`);
  return Number(need);
}
