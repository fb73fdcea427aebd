import { setTimeout as wait } from 'node:timers/promises';
import type { EventOf, Placed } from '#db/events/events.ts';
import { minuteOf } from '#db/limits/windows.ts';
import type { ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests } from '../support/faults.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import {
  CHILDREN,
  type Day,
  type DayChanges,
  type DayStep,
  MODELS,
  type ModelName,
  PLAN,
  TENANTS,
} from './day.ts';

/** A day of calls on a server of its own. */

/** The code of the error of a call, and the limit that was short; null: it was admitted. */
export type Rejection = { code: string | null; limit: string | null } | null;

/** Steps of a day within one minute, from the first one on, and how long they took. */
export type MinuteOfDay = { first: number; tookMs: number };

/** A day as it ran, and the log that it left. */
export type RealDay = AsyncDisposable & {
  fleet: Fleet;
  minutes: readonly MinuteOfDay[];
  /** The ids of the accounts that called. */
  accounts: readonly string[];
  /** By the numbers of the calls. */
  decisions: readonly Rejection[];
};

/** An upstream that replies to a call only once it is released, if the call is held. */
export type HoldingUpstream = AsyncDisposable & {
  upstream: ScriptedUpstream;
  hold(call: number): void;
  release(call: number): void;
  /** Whether a held call has been received. */
  hasReceived(call: number): boolean;
};

const PRICES = { base: { input: 1_000_000, cache_read: 500_000, output: 4_000_000 } };
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** So long calls are recorded within a minute: a server that is slower then is to decide them in one, too. */
const RECORDED_MS = 15_000;
/** What is left of a minute at least when a call begins. */
const LEFT_MS = 5_000;
/** A server's clock is the database's, which a busy machine reads late. */
const CLOCK_LAG_MS = 3_000;
const POLL_MS = 5;

export async function startHoldingUpstream(): Promise<HoldingUpstream> {
  const held = new Map<number, PromiseWithResolvers<void>>();
  const received = new Set<number>();
  const upstream = await startUpstream({
    before: async ({ seed }) => {
      const gate = held.get(seed as number);
      if (gate === undefined) return;
      received.add(seed as number);
      await gate.promise;
    },
  });
  // It would count the limit on the reply that the relay adds under a hard quota as part of the prompt.
  for (const [name, tokens] of Object.entries(MODELS))
    upstream.script(name, `tokens=${tokens},prompt=90,obey=yes`);
  return {
    upstream,
    hold(call) {
      received.delete(call);
      held.set(call, Promise.withResolvers());
    },
    release(call) {
      held.get(call)?.resolve();
      held.delete(call);
    },
    hasReceived: (call) => received.has(call),
    [Symbol.asyncDispose]: () => upstream.close(),
  };
}

/** No changes: every call is admitted. */
export const UNCHANGED: DayChanges = { terms: {}, prices: [], models: new Map() };

/**
 * Runs the calls of a day in their order under the changes. A call that isn't held has ended, and its end is
 * in the log, before the next one begins. All are within an hour, or the day is run again.
 * @param minutes those of the recorded day: each of them is one here, too. `record`: a further one begins
 *   every so often and, of a long day, in the middle.
 */
export async function runDay(
  holding: HoldingUpstream,
  day: Day,
  changes: DayChanges,
  minutes: readonly MinuteOfDay[] | 'record' | 'record long',
): Promise<RealDay> {
  for (;;) {
    const fleet = await startFleet({ instances: 1, upstreams: [holding.upstream] });
    const tenants = await prepare(fleet, changes);
    const run = new Run(fleet, holding, day, tenants, changes.models);
    const startedMs = Date.now();
    const played = await run.play(minutes);
    const isRecorded = played !== null && (await run.isRecorded());
    if (isRecorded && Math.floor(startedMs / HOUR_MS) === Math.floor(Date.now() / HOUR_MS))
      return {
        fleet,
        minutes: played,
        accounts: tenants.map(({ account }) => account),
        decisions: run.decisions,
        [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
      };
    await fleet[Symbol.asyncDispose]();
  }
}

type Caller = { account: string; secret: string };

/** A parent with its children, further accounts, and prices; all on the plan. */
async function prepare(fleet: Fleet, { terms, prices }: DayChanges): Promise<Caller[]> {
  return fleet.control(async (control, pepper) => {
    await control.definePlan(PLAN, terms, 'keep');
    for (const model of Object.keys(MODELS)) await control.setPrice(model, PRICES);
    for (const price of prices) await control.setPrice(price.pattern, price.terms, price.plan);
    await control.createAccount('parent', PLAN);
    const callers: Caller[] = [];
    for (let number = 0; number < TENANTS; number++) {
      const name = `tenant-${number}`;
      const { id } = await control.createAccount(name, PLAN);
      if (number < CHILDREN) await control.setParent(name, 'parent');
      const { secret } = await control.createKey(pepper, { account: name, name: 'key', expiresAt: null });
      callers.push({ account: id, secret });
    }
    return callers;
  });
}

/** The calls of one day. */
class Run {
  readonly decisions: Rejection[] = [];
  readonly #fleet: Fleet;
  readonly #holding: HoldingUpstream;
  readonly #day: Day;
  readonly #callers: readonly Caller[];
  readonly #models: ReadonlyMap<ModelName, ModelName>;
  readonly #minutes: number[] = [];
  readonly #running = new Map<number, Promise<ChatReply>>();

  constructor(
    fleet: Fleet,
    holding: HoldingUpstream,
    day: Day,
    callers: readonly Caller[],
    models: ReadonlyMap<ModelName, ModelName>,
  ) {
    this.#fleet = fleet;
    this.#holding = holding;
    this.#day = day;
    this.#callers = callers;
    this.#models = models;
  }

  /** @returns null where a minute turned within a step, or within the steps of a minute. */
  async play(minutes: readonly MinuteOfDay[] | 'record' | 'record long'): Promise<MinuteOfDay[] | null> {
    const { steps } = this.#day;
    const played: MinuteOfDay[] = [];
    const middle = minutes === 'record long' ? steps.length >> 1 : null;
    let minute = -1;
    let beganMs = 0;
    for (const [number, step] of steps.entries()) {
      const recorded = typeof minutes === 'string' ? null : minutes.find(({ first }) => first === number);
      const isDue =
        number === 0 || recorded === null
          ? number === 0 || number === middle || Date.now() - beganMs > RECORDED_MS
          : recorded !== undefined;
      if (isDue) {
        await minuteAfter(minute, LEFT_MS + 2 * (recorded?.tookMs ?? 0));
        beganMs = Date.now();
        minute = minuteOf(beganMs);
        played.push({ first: number, tookMs: 0 });
      }
      await this.#take(step);
      const endedMs = Date.now();
      if (minuteOf(endedMs) !== minute) return null;
      if (step.kind !== 'release') this.#minutes[step.call] = minute;
      (played.at(-1) as MinuteOfDay).tookMs = endedMs - beganMs;
    }
    return played;
  }

  /** Whether the calls were admitted in the minutes in which they were made. */
  async isRecorded(): Promise<boolean> {
    const minutes = this.#minutes.filter((_, call) => this.decisions[call] === null);
    const accepted = (await this.#fleet.readLog()).flatMap(({ event }) =>
      event.type === 'request.accepted' ? [event.admitted_minute] : [],
    );
    return accepted.every((minute, index) => minute === minutes[index]);
  }

  async #take({ kind, call }: DayStep): Promise<void> {
    if (kind === 'hold') {
      this.#holding.hold(call);
      const reply = this.#send(call);
      this.#running.set(call, reply);
      let isOver = false;
      const over = (): void => void (isOver = true);
      reply.then(over, over);
      while (!isOver && !this.#holding.hasReceived(call)) await wait(POLL_MS);
      // It was rejected.
      if (isOver) await this.#end(call);
    } else if (kind === 'call') {
      this.#running.set(call, this.#send(call));
      await this.#end(call);
    } else if (this.#running.has(call)) {
      await this.#rejectionsRecorded();
      await this.#end(call);
    }
    const running = this.#running.size;
    await this.#fleet.waitFor((events) => openRequests(events).length === running);
  }

  /**
   * Rejections are recorded within a second, and a back-test decides calls in the order of the log: one that
   * is recorded after the end of a held call would find the units that this has returned.
   */
  async #rejectionsRecorded(): Promise<void> {
    const rejected = this.decisions.filter((decision) => decision !== null).length;
    await this.#fleet.waitFor((events) => countRejected(events) === rejected);
  }

  #send(number: number): Promise<ChatReply> {
    const { tenant, headers, body } = this.#day.calls[number] as Day['calls'][number];
    const model = this.#models.get(body.model) ?? body.model;
    const { secret } = this.#callers[tenant] as Caller;
    return this.#fleet.chat(0, { key: secret, headers, body: { ...body, model }, timeoutMs: 2 * MINUTE_MS });
  }

  async #end(call: number): Promise<void> {
    this.#holding.release(call);
    this.decisions[call] = rejectionOf((await this.#running.get(call)) as ChatReply);
    this.#running.delete(call);
  }
}

const countRejected = (events: readonly Placed[]): number =>
  events.reduce((sum, { event }) => sum + (event.type === 'request.rejected' ? event.rejected_count : 0), 0);

function rejectionOf(reply: ChatReply): Rejection {
  if (reply.status === 200) return null;
  const { error } = (reply.json ?? {}) as {
    error?: { limit?: { scope: string; meter: string; window: string } };
  };
  const limit = error?.limit;
  return { code: errorCodeOf(reply), limit: limit ? `${limit.scope} ${limit.meter} ${limit.window}` : null };
}

/** Waits for a moment of a later minute than one, with so much of it left. */
async function minuteAfter(minute: number, leftMs: number): Promise<void> {
  for (;;) {
    const nowMs = Date.now();
    const restMs = MINUTE_MS - (nowMs % MINUTE_MS);
    const isBegun = minuteOf(nowMs) > minute && restMs <= MINUTE_MS - CLOCK_LAG_MS;
    if (isBegun && restMs >= Math.min(leftMs, MINUTE_MS - 2 * CLOCK_LAG_MS)) return;
    await wait(restMs > MINUTE_MS - CLOCK_LAG_MS ? CLOCK_LAG_MS : restMs);
  }
}

/** The accepted calls in the order of the log. */
export const acceptedIn = async ({ fleet }: RealDay): Promise<EventOf<'request.accepted'>[]> =>
  (await fleet.readLog()).flatMap(({ event }) => (event.type === 'request.accepted' ? [event] : []));

/** The settled calls in the order of the log. */
export const settledIn = async ({ fleet }: RealDay): Promise<EventOf<'request.settled'>[]> =>
  (await fleet.readLog()).flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
