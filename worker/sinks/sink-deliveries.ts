import { setTimeout as wait } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import { unsealSinkConfig } from '#db/spend/seal-sink-config.ts';
import type { SinkConfig } from '#db/spend/sink-config.ts';
import { originOf } from '#db/fold/signing.ts';
import { openSealed } from '../sealed-target.ts';
import type { Work } from '../task-list.ts';
import { deliverSink, DELIVERY_MAX_MS } from './deliver-sink.ts';
import { openSink } from './open-sink.ts';
import type { Sink } from './sink.ts';
import { claimSink, endTest, readDueSinks, releaseSinks, type SealedSink, takeTest } from './sink-state.ts';

/** How often it is looked for sinks that lack events. */
const LOOK_MS = 1_000;
/** The same without any sink. */
const LOOK_WITHOUT_SINKS_MS = 5_000;
const AFTER_FAULT_MS = 5_000;
/** For the end of the claims as the worker stops; without it they end by themselves. */
const RELEASE_MAX_MS = 1_000;

/** Runs statements over a connection that is shared with other tasks. */
type Look = <T>(work: (client: ClientBase) => Promise<T>) => Promise<T>;

type SinkDeliveriesOptions = {
  look: Look;
  /** The instance that claims sinks. */
  worker: () => number;
  /** The configuration of a sink. @throws {Error} when it can't be opened; it was logged. */
  open: (id: string, sealed: SealedSink) => SinkConfig;
  log: Logger;
  signal: AbortSignal;
};

/** The deliveries of a worker. @param signal aborted when it stops. */
export function sinkDeliveries(
  { config, log, instance }: Pick<Work, 'config' | 'log' | 'instance'>,
  look: Look,
  signal: AbortSignal,
): SinkDeliveries {
  return new SinkDeliveries({
    look,
    worker: () => instance.session.instance,
    open: (id, { name, sealed_config }) =>
      openSealed(config, log, { sink: name }, (pepper) => unsealSinkConfig(pepper, id, sealed_config)),
    log,
    signal,
  });
}

type Opened = { sink: Sink; sealed: Buffer };

/**
 * The deliveries of this worker. A look a second finds the sinks that lack events; each of them is delivered
 * to by a run of its own, so that one that fails or is slow delays no other. Everything that a run needs to
 * continue is in the database; a sink's client is kept between runs for its connections.
 */
class SinkDeliveries {
  readonly #options: SinkDeliveriesOptions;
  readonly #running = new Map<string, Promise<void>>();
  readonly #tests = new Map<string, Promise<void>>();
  readonly #opened = new Map<string, Opened>();
  #source: string | null = null;

  constructor(options: SinkDeliveriesOptions) {
    this.#options = options;
  }

  /** Delivers until `signal` is aborted. */
  async run(): Promise<void> {
    const { signal, log, look, worker } = this.#options;
    while (!signal.aborted) {
      let pauseMs = AFTER_FAULT_MS;
      try {
        pauseMs = await this.#startRuns();
      } catch (error) {
        log.warn(errorFields(error), 'sinks could not be read; retrying');
      }
      await wait(pauseMs, undefined, { signal }).catch(() => undefined);
    }
    await Promise.all([...this.#running.values(), ...this.#tests.values()]);
    await this.#close([...this.#opened.keys()]);
    const released = look((client) => releaseSinks(client, worker()));
    await Promise.race([released.catch(() => undefined), wait(RELEASE_MAX_MS, undefined, { ref: false })]);
  }

  /** @returns the milliseconds until the next look. */
  async #startRuns(): Promise<number> {
    const { look, worker } = this.#options;
    const sinks = await look((client) => readDueSinks(client, worker()));
    const known = new Set(sinks.map(({ id }) => id));
    await this.#close([...this.#opened.keys()].filter((id) => !known.has(id) && !this.#running.has(id)));
    for (const { id, is_due, wants_test } of sinks) {
      if (is_due) startOnce(this.#running, id, () => this.#deliver(id));
      if (wants_test) startOnce(this.#tests, id, () => this.#test(id));
    }
    return sinks.length === 0 ? LOOK_WITHOUT_SINKS_MS : LOOK_MS;
  }

  /** Never rejects. */
  async #deliver(id: string): Promise<void> {
    const { look, worker, log, signal } = this.#options;
    try {
      const claimant = worker();
      const claimed = await look((client) => claimSink(client, claimant, id));
      if (claimed === null) return;
      const sink = await this.#open(id, claimed);
      await deliverSink({ worker: claimant, id }, claimed, sink, {
        look,
        signal,
        onFault: (fault, pauseMs) => {
          const retryS = Math.round(pauseMs / 1_000);
          log.warn({ sink: claimed.name, fault }, `sink delivery failed; retrying in ${retryS} s`);
        },
      });
    } catch (error) {
      log.warn({ sink: id, ...errorFields(error) }, 'sink delivery interrupted; it will continue');
    }
  }

  /** Sends a test event, over a client of its own: deliveries may run beside it. Never rejects. */
  async #test(id: string): Promise<void> {
    const { look, open, log, signal } = this.#options;
    try {
      const source = await this.#readSource();
      const sealed = await look((client) => takeTest(client, id));
      if (sealed === null) return;
      const ending = AbortSignal.any([signal, AbortSignal.timeout(DELIVERY_MAX_MS)]);
      const fault = await testSink(() => openSink(open(id, sealed), { id, source }), ending);
      await look((client) => endTest(client, id, fault));
    } catch (error) {
      log.warn({ sink: id, ...errorFields(error) }, 'sink test interrupted');
    }
  }

  /**
   * The client of a sink, a new one where its configuration has changed.
   * @returns null where the configuration can't be opened.
   */
  async #open(id: string, claimed: SealedSink): Promise<Sink | null> {
    const sealed = claimed.sealed_config;
    const opened = this.#opened.get(id);
    if (opened?.sealed.equals(sealed) === true) return opened.sink;
    await this.#close([id]);
    const source = await this.#readSource();
    try {
      const sink = openSink(this.#options.open(id, claimed), { id, source });
      this.#opened.set(id, { sink, sealed });
      return sink;
    } catch {
      return null;
    }
  }

  async #readSource(): Promise<string> {
    this.#source ??= await this.#options.look(readSource);
    return this.#source;
  }

  async #close(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      const opened = this.#opened.get(id);
      this.#opened.delete(id);
      await opened?.sink.close().catch(() => undefined);
    }
  }
}

/** Starts a run of a sink that has none. */
function startOnce(runs: Map<string, Promise<void>>, id: string, run: () => Promise<void>): void {
  if (runs.has(id)) return;
  runs.set(
    id,
    run().finally(() => runs.delete(id)),
  );
}

/** @returns the fault of the test; null: the receiver accepted it. */
async function testSink(open: () => Sink, signal: AbortSignal): Promise<string | null> {
  let sink: Sink;
  try {
    sink = open();
  } catch {
    return 'configuration_unavailable';
  }
  try {
    return await sink.test(`test-${Date.now()}`, signal);
  } finally {
    await sink.close().catch(() => undefined);
  }
}

/** The identity of the log, the same in all of its epochs. */
async function readSource(client: ClientBase): Promise<string> {
  const { log_id } = await onlyRowOf(client, db.selectFrom('daybook.install').select('log_id'));
  return originOf(log_id, 1);
}
