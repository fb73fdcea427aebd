import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import type { FollowedBatch } from '#db/stored/batches.ts';
import { wireOf } from '#server/batches/batch-wire.ts';
import type { BatchFacts } from '#server/batches/batch-facts.ts';
import {
  AFTER_WINDOW_MS,
  BATCH_ACTIVE_MS,
  BATCH_IDLE_LOOK_MS,
  BATCH_LOOK_MS,
  CREATED_BY_MS,
  FOLLOWED_MAX,
  LOOK_PAGES_MAX,
  OUTPUT_MISSING_MS,
} from '#server/batches/bounds.ts';
import { endLines, type EndingBatch, loseLines } from '#server/batches/end-lines.ts';
import { type BatchState, followAfterMs, judgeBatch } from '#server/batches/judge-batch.ts';
import { noteState } from '#server/batches/note-state.ts';
import { endByCode } from '#server/batches/output-line.ts';
import { OutputSettlement } from '#server/batches/settle-output.ts';
import { unsentEnd } from '#server/relay/reply-usage.ts';
import type { Relay } from '#server/relay/relay.ts';
import { DueLoop } from '#server/stored/due-loop.ts';
import { STORED_REPLY_MS } from '#server/stored/bounds.ts';
import { readFacts } from '#server/stored/facts-json.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';
import { asRecord } from '#server/wire/counts.ts';

/** The upstream and credential of a batch; null: one was removed. */
type Holder = { upstream: Upstream; pool: UpstreamConnectionPool } | null;
type Reply = { status: number; bytes: Buffer } | null;

/**
 * Follows batches to their end, whether or not a client asks for them, and settles their lines. Each server
 * looks for those that are due, every second while there were any lately, takes some and asks their
 * providers. Servers do this and not the worker, since they alone have the credentials. Each line is settled
 * once, whichever server does it: `daybook.settle_batch` deletes its row together with the append.
 */
export class BatchPoller {
  readonly #relay: Relay;
  readonly #log: Logger;
  readonly #loop: DueLoop<FollowedBatch>;

  constructor(relay: Relay, log: Logger) {
    this.#relay = relay;
    this.#log = log;
    this.#loop = new DueLoop({
      store: relay.batchStore,
      instance: () => relay.instance.appender.instance,
      atOnceMax: FOLLOWED_MAX,
      lookMs: BATCH_LOOK_MS,
      activeMs: BATCH_ACTIVE_MS,
      idleLookMs: BATCH_IDLE_LOOK_MS,
      handle: (row) => this.#follow(row),
      onError: (error) => log.warn(errorFields(error), 'following batches failed; retrying'),
    });
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  async #follow(batch: FollowedBatch): Promise<void> {
    const { batchStore: store } = this.#relay;
    const facts = readFacts(batch.facts) as BatchFacts;
    const holder = this.#holderOf(batch);
    const wire = wireOf(facts.accepted.route);
    if (batch.id === null)
      return wire.canBeFound ? this.#lookFor(batch, facts, holder) : this.#lose(batch, facts);
    const { kind, headers } = wire;
    const reply = await this.#ask(holder, `${wire.path}/${encodeURIComponent(batch.id)}`, headers);
    if (this.#loop.signal.aborted) return store.postpone(batch.batch, 0);
    const polled = reply && { status: reply.status, state: wire.readState(reply.bytes) };
    const verdict = judgeBatch(polled, batch.ageMs, facts.windowMs);
    if (polled?.state && polled.status === 200)
      await noteState(this.#relay, { ...batch, id: batch.id, kind }, polled.state);
    switch (verdict.kind) {
      case 'running':
        return store.postpone(batch.batch, verdict.nextMs);
      case 'ended':
        return this.#settle({ ...batch, id: batch.id }, facts, holder as NonNullable<Holder>, verdict.state);
      case 'lost':
        return this.#lose(batch, facts);
    }
  }

  #holderOf({ upstream: name, credential }: FollowedBatch): Holder {
    const upstream = this.#relay.upstreams.get(name);
    const pool = upstream?.pools.find((each) => each.credential === credential);
    return upstream && pool ? { upstream, pool } : null;
  }

  /** Settles the lines that have output, and ends the others, unless their output is still to come. */
  async #settle(
    batch: FollowedBatch & { id: string },
    facts: BatchFacts,
    { upstream: { redactor }, pool }: NonNullable<Holder>,
    state: BatchState & { ended: NonNullable<BatchState['ended']> },
  ): Promise<void> {
    const { batchStore: store } = this.#relay;
    const { instance } = this.#relay.instance.appender;
    const ending = endingBatch(batch, facts);
    const { signal } = this.#loop;
    const wire = wireOf(facts.accepted.route);
    const settlement = new OutputSettlement({ store, instance, batch: ending, wire, pool, redactor, signal });
    let isWhole = true;
    for (const path of wire.outputs(batch.id, state)) if (!(await settlement.settle(path))) isWhole = false;
    if (isWhole && settlement.succeeded.size >= (state.completed ?? 0))
      return endLines({ store, instance }, ending, endByCode(state.ended));
    if ((batch.endedMs ?? 0) >= OUTPUT_MISSING_MS) return this.#lose(batch, facts);
    await store.postpone(batch.batch, followAfterMs(batch.endedMs ?? 0));
  }

  /** Looks for a batch whose creation had no reply among those of its provider. */
  async #lookFor(batch: FollowedBatch, facts: BatchFacts, holder: Holder): Promise<void> {
    const { batchStore: store } = this.#relay;
    let after = '';
    for (let page = 0; page < LOOK_PAGES_MAX; page++) {
      const reply = await this.#ask(holder, `/batches?limit=100${after}`);
      if (this.#loop.signal.aborted) return store.postpone(batch.batch, 0);
      if (reply?.status !== 200) {
        if (batch.ageMs >= AFTER_WINDOW_MS) return this.#lose(batch, facts);
        return store.postpone(batch.batch, followAfterMs(batch.ageMs));
      }
      const { ids, last } = idsWithFile(reply.bytes, batch.input_file);
      const known = await store.known(batch.upstream, ids);
      const id = ids.find((each) => !known.has(each));
      if (id !== undefined) return store.found(batch.batch, id);
      if (last === null) break;
      after = `&after=${encodeURIComponent(last)}`;
    }
    if (batch.ageMs < CREATED_BY_MS) return store.postpone(batch.batch, followAfterMs(batch.ageMs));
    const { instance } = this.#relay.instance.appender;
    await endLines({ store, instance }, endingBatch(batch, facts), unsentEnd('upstream_unreachable', 502));
  }

  async #lose(batch: FollowedBatch, facts: BatchFacts): Promise<void> {
    const { batchStore: store } = this.#relay;
    const { instance } = this.#relay.instance.appender;
    this.#log.warn(
      { batch: batch.batch, upstream: batch.upstream },
      'batch lost; the reservations of its lines are charged',
    );
    await loseLines({ store, instance }, endingBatch(batch, facts));
  }

  /** @returns null: there is no reply. */
  async #ask(holder: Holder, path: string, headers: readonly string[] = []): Promise<Reply> {
    if (holder === null) return null;
    try {
      const signal = AbortSignal.any([this.#loop.signal, AbortSignal.timeout(STORED_REPLY_MS)]);
      const { status, body } = await holder.pool.exchange({ method: 'GET', path, headers, signal });
      const bytes = new ByteCollector();
      for await (const chunk of body) {
        bytes.push(chunk);
        if (bytes.length > JSON_REPLY_BYTES_MAX) return null;
      }
      const { redactor } = holder.upstream;
      return { status, bytes: redactor.json(bytes.take() ?? Buffer.alloc(0), status !== 200) };
    } catch {
      // Its connection pool reports failures; the provider is asked again.
      return null;
    }
  }
}

const endingBatch = (
  { batch, upstream, credential, ageMs }: FollowedBatch,
  facts: BatchFacts,
): EndingBatch => ({ batch, facts, upstream, credential, ageMs });

/** The batches of a page of a provider's list that have an input file, and the last one, if more follow. */
function idsWithFile(bytes: Buffer, file: string): { ids: string[]; last: string | null } {
  let page: unknown;
  try {
    page = JSON.parse(bytes.toString());
  } catch {
    return { ids: [], last: null };
  }
  const { data, has_more: hasMore } = asRecord(page) ?? {};
  const batches = (Array.isArray(data) ? (data as unknown[]) : []).map(asRecord);
  const ids = batches.flatMap((batch) =>
    batch?.['input_file_id'] === file && isStoredId(batch['id']) ? [batch['id']] : [],
  );
  const last = batches.at(-1)?.['id'];
  return { ids, last: hasMore === true && isStoredId(last) ? last : null };
}
