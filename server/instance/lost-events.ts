import type { LostEvents } from '#db/log/acknowledged.ts';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { recordLostEvents } from '#db/tlog/lost-events.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/**
 * Records that the log lacks acknowledged events, so that no later start or checkpoint passes over it. Never
 * throws: the caller finds the same at its next attempt.
 */
export async function keepLostEvents(
  store: Store,
  directory: string,
  lost: LostEvents,
  log: Logger,
): Promise<void> {
  try {
    const client = await connectRelay(store);
    try {
      const { origin } = await readLogState(client);
      await recordLostEvents(directory, origin, lost);
    } finally {
      await closeClient(client);
    }
    log.error(
      { first_position: lost.first, last_position: lost.last },
      'log lacks acknowledged events; recording nothing until "daybook log new-epoch" gives them up',
    );
  } catch (error) {
    log.error(errorFields(error), 'recording the lost events failed; retrying');
  }
}
