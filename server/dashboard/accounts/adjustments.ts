import type { ClientBase } from 'pg';
import type { EventOf, Placed } from '#db/events/events.ts';
import { UnreadableEventError } from '#db/log/read.ts';
import { readNewestOfStream } from '#db/log/read-streams.ts';
import type { AdjustmentList, AdjustmentRow } from '#server/contract/accounts.ts';
import { ADJUSTMENTS_LISTED_MAX } from '#server/dashboard/bounds.ts';
import type { Source } from '#server/read/store.ts';

/** Adjustments are read from the log itself: from a stream of their own for each account. */
export const ADJUSTMENTS: Source = { projection: 'quotas', tables: [] };

/** The newest adjustments of an account's usage. */
export async function listAdjustments(
  client: ClientBase,
  account: string,
  limit = ADJUSTMENTS_LISTED_MAX,
): Promise<AdjustmentList> {
  const events = (await readNewestOfStream(client, `quota/${account}`, limit)).flatMap((row) =>
    row instanceof UnreadableEventError ? [] : [row],
  );
  const oldest = events.at(-1)?.version ?? 1;
  return {
    object: 'list',
    data: events.flatMap((placed) =>
      placed.event.type === 'quota.adjusted' ? [adjustmentRow(placed, placed.event)] : [],
    ),
    rows_omitted: oldest - 1,
  };
}

function adjustmentRow({ position, at }: Placed, event: EventOf<'quota.adjusted'>): AdjustmentRow {
  const { actor, key = null, meter, amount, window, reason } = event;
  return { position, at: at.toISOString(), actor, key, meter, amount, window, reason };
}
