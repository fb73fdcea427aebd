import type { Client } from 'pg';
import { isControl } from '#db/events/events.ts';
import { allReadable, readRows } from '#db/log/read.ts';
import type { Bill } from '#db/reconcile/bill/line.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { PriceHistory } from '#server/read-model/price-history.ts';

/** What the log says of prices and credentials, up to its head. */
export type LogTerms = { prices: PriceHistory; credentials: readonly LoggedCredential[] };
export type LoggedCredential = { id: string; upstream: string; label: string };

/** Reads all control events. */
export async function readLogTerms(client: Client): Promise<LogTerms> {
  const prices = new PriceHistory();
  const credentials: LoggedCredential[] = [];
  for (let after = 0; ;) {
    const rows = await readRows(client, after, 'control');
    for (const placed of allReadable(rows)) {
      if (!isControl(placed)) continue;
      const { event, at, position, version } = placed;
      if (event.type === 'model.priced') prices.apply({ event, at, position, version });
      if (event.type === 'upstream.credential_added')
        credentials.push({ id: event.credential, upstream: event.upstream, label: event.label });
    }
    const last = rows.at(-1)?.position;
    if (last === undefined) return { prices, credentials };
    after = last;
  }
}

/**
 * The credentials of a bill by the relay's ids: as they are mapped, or by an equal id or label. Where none is
 * known, calls can't be compared by credential.
 * @throws {DecisionError} when a mapping names none of the relay's.
 */
export function mapCredentials(
  bill: Bill,
  credentials: readonly LoggedCredential[],
  mapped: ReadonlyMap<string, string>,
): { credentials: Map<string, string>; areKnown: boolean } {
  const named = (name: string): string | undefined =>
    credentials.find(({ id }) => id === name)?.id ??
    credentials.find(({ label }) => label.toLowerCase() === name.toLowerCase())?.id;
  const found = new Map<string, string>();
  for (const [billed, own] of mapped) {
    const id = named(own);
    if (id === undefined)
      throw new DecisionError('not_found', `No upstream has a credential "${own}": daybook credential list`);
    found.set(billed, id);
  }
  for (const { credential } of bill.lines) {
    if (credential === null || found.has(credential)) continue;
    const id = named(credential);
    if (id !== undefined) found.set(credential, id);
  }
  return { credentials: found, areKnown: found.size > 0 };
}
