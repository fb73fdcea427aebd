import type { ClientBase } from 'pg';
import { UnreadableEventError } from '#db/log/read.ts';
import { readNewestOfStream } from '#db/log/read-streams.ts';
import type { TopUpList } from '#server/contract/accounts.ts';
import { TOP_UP_EVENTS_MAX } from '#server/dashboard/bounds.ts';

/** The top-ups among the newest events of an account. */
export async function listTopUps(client: ClientBase, account: string): Promise<TopUpList> {
  const events = await readNewestOfStream(client, `account/${account}`, TOP_UP_EVENTS_MAX);
  return {
    object: 'list',
    data: events.flatMap((placed) => {
      if (placed instanceof UnreadableEventError || placed.event.type !== 'account.topped_up') return [];
      const { amount_nanousd, reference, actor } = placed.event;
      return [{ position: placed.position, at: placed.at.toISOString(), actor, amount_nanousd, reference }];
    }),
  };
}
