import { createHash } from 'node:crypto';
import type { Client } from 'pg';
import { databaseSource } from '#db/audit/source/source.ts';
import { type EventOf, isControl, type Placed } from '#db/events/events.ts';
import { correctionOf, NO_CORRECTION } from '#db/fold/correction.ts';
import { ConflictError } from '#db/log/append.ts';
import { readCorrected } from '#db/log/read-corrections.ts';
import { allReadable, readEvents, readHead, readRows } from '#db/log/read.ts';
import { REPRICE_ATTEMPTS_MAX, REPRICE_REQUESTS } from '#server/control/bounds.ts';
import type { Control } from '#server/control/control.ts';
import type { PriceTable } from '#server/read-model/price-table.ts';
import { isChanged, type RepricedRequest, Repricing, type Settled } from '#server/read-model/reprice.ts';

/** The requests that are repriced: those that ended in the period. */
export type RepricedPart = { from: Date; to: Date; account: string | null; model: string | null };

/** Where the corrections of a repricing come from, and why they are made. */
export type RepriceOrigin = { reference: string; reason: string };

/** What a repricing came to; `corrected` counts the requests that it corrected, now or in an earlier run. */
export type Repriced = { repricing: Repricing; corrected: number; abandoned: number };

/**
 * The reference of a repricing: the same for the same part and the same prices, so that a run that was ended
 * half-way is continued by the same command.
 */
export function repriceReference(part: RepricedPart, prices: PriceTable): string {
  const known = prices.all.map(({ pattern, plan, version }) => [pattern, plan, version]);
  const digest = createHash('sha256')
    .update(JSON.stringify([part, known]))
    .digest('hex');
  return `reprice:${digest.slice(0, 16)}`;
}

/**
 * Reprices the settled requests of a period, in batches of {@link REPRICE_REQUESTS}, each read, decided and
 * appended by itself: memory doesn't grow with the period. It reads all control events.
 * @param apply null: nothing is changed. Otherwise a request that has the reference already is not changed.
 * @throws {ArchivedError} when a part of the period is in the archive.
 */
export async function reprice(
  client: Client,
  prices: PriceTable,
  part: RepricedPart,
  apply: (RepriceOrigin & { control: Control }) | null,
  batchRequests = REPRICE_REQUESTS,
): Promise<Repriced> {
  const repricing = new Repricing(prices);
  const result: Repriced = { repricing, corrected: 0, abandoned: 0 };
  const source = await databaseSource(client);
  const first = (await source.seek(part.from)) ?? source.first;
  const last = ((await source.seek(part.to)) ?? source.head + 1) - 1;
  await readTerms(client, repricing, first);
  const range = { after: first - 1, upTo: last };
  let waiting: Placed<Settled>[] = [];
  const flush = async (): Promise<void> => {
    if (waiting.length > 0) result.corrected += await repriceBatch(client, repricing, waiting, apply);
    waiting = [];
  };
  for await (const batches of source.read(range))
    for (const batch of batches)
      for (const placed of allReadable(readEvents(batch, range))) {
        if (isControl(placed)) repricing.addControl(placed);
        else if (isSettled(placed)) {
          if (!isIn(part, placed)) continue;
          waiting.push(placed);
          if (waiting.length === batchRequests) await flush();
        } else if (placed.event.type === 'request.abandoned' && isIn(part, placed)) result.abandoned++;
      }
  await flush();
  return result;
}

/** The control events before a position. */
async function readTerms(client: Client, repricing: Repricing, before: number): Promise<void> {
  for (let after = 0; ;) {
    const rows = await readRows(client, after, 'control');
    for (const placed of allReadable(rows))
      if (isControl(placed) && placed.position < before) repricing.addControl(placed);
    after = rows.at(-1)?.position ?? before;
    if (after >= before) return;
  }
}

/** @returns how many of the requests are corrected with the reference. */
async function repriceBatch(
  client: Client,
  repricing: Repricing,
  requests: readonly Placed<Settled>[],
  apply: (RepriceOrigin & { control: Control }) | null,
): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    const seen = await readHead(client);
    const known = await readCorrected(
      client,
      requests.map(({ event }) => event.request),
    );
    const priced = requests.map((placed) =>
      repricing.price(placed, known.get(placed.event.request)?.added ?? NO_CORRECTION),
    );
    const isDone = ({ event }: RepricedRequest): boolean =>
      apply !== null && known.get(event.request)?.references.includes(apply.reference) === true;
    const [done, open] = [priced.filter(isDone), priced.filter((each) => !isDone(each))];
    try {
      if (apply !== null) await applyBatch(apply, seen, open);
      for (const each of open) repricing.count(each);
      for (const each of done) repricing.count({ ...each, more: NO_CORRECTION });
      return apply === null ? 0 : done.length + open.filter(({ more }) => isChanged(more)).length;
    } catch (error) {
      // Another process corrected one of them meanwhile, perhaps with the same reference.
      if (!(error instanceof ConflictError) || attempt === REPRICE_ATTEMPTS_MAX) throw error;
    }
  }
}

async function applyBatch(
  { control, reference, reason }: RepriceOrigin & { control: Control },
  seen: number,
  requests: readonly RepricedRequest[],
): Promise<void> {
  const events = requests.flatMap(({ event, more }): EventOf<'usage.adjusted'>[] =>
    isChanged(more) ? [correctionOf(event, more, { reference, reason, adjusted_by: control.actor })] : [],
  );
  if (events.length > 0) await control.appendCorrections(seen, events);
}

const isSettled = (placed: Placed): placed is Placed<Settled> => placed.event.type === 'request.settled';

function isIn({ from, to, account, model }: RepricedPart, { at, event }: Placed): boolean {
  return (
    at >= from &&
    at < to &&
    'model' in event &&
    (account === null || ('account' in event && event.account === account)) &&
    (model === null || event.model === model)
  );
}
