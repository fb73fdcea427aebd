import type { Figures } from '#server/limits/figures.ts';
import type { ChatReply } from '../support/client.ts';

/** The limit that a refused call was told of. */
export function limitOf(reply: ChatReply): Figures {
  const { error } = reply.json as { error: { limit?: Figures } };
  if (!error.limit) throw new Error(`no limit is told: ${reply.body.toString()}`);
  return error.limit;
}

/** How much of it the call would have needed. */
export function needOf(reply: ChatReply): number {
  const { error } = reply.json as { error: { message: string } };
  const [, need] = /this call needs (\d+)|This call may need (\d+)/.exec(error.message) ?? [];
  if (need === undefined) throw new Error(`no need is told: ${error.message}`);
  return Number(need);
}
