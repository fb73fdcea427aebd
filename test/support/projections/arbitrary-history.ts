import type { ControlEvent, EventOf, PlanTerms, RequestEvent } from '#db/events/events.ts';
import type { ObservedRejection } from '#db/events/admission.ts';
import { publicId, uuidv7 } from '#db/ids.ts';
import { streamOf } from '#db/events/streams.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import type { Writer } from '../log/log-writer.ts';
import { type ExpectedSubject, expectedSubjects } from '../subjects.ts';
import type { HistoryStep } from './history-steps.ts';

/**
 * Made-up histories of a few accounts, in which everything happens in an order in which it can: calls
 * begin, are given more and end, under terms of now or of before, in windows of now or of the past,
 * while plans and keys change.
 */

const ACCOUNTS = 3;
const KEYS = 4;
const PLANS = 2;

/** What every account has at first, so that most calls are charged to windows of all lengths. */
const QUOTAS: NonNullable<PlanTerms['quotas']> = [
  { meter: 'tokens', window: 'hour', limit: 7, enforcement: 'hard' },
  { meter: 'cost_nanousd', window: 'day', limit: 8, enforcement: 'soft' },
  { meter: 'requests', window: 'week', limit: 9, enforcement: 'soft' },
  { meter: 'tokens', window: 'day', per: 'end_user', limit: 5, enforcement: 'hard' },
  { meter: 'requests', window: 'lifetime', per: 'tag', limit: 5, enforcement: 'soft' },
];

type Corrected = Pick<
  EventOf<'usage.adjusted'>,
  'request' | 'account' | 'key' | 'model' | 'end_reason' | 'upstream' | 'status'
>;
type Running = EventOf<'request.accepted'> & { hold: { hold_tokens: number; hold_cost_nanousd?: number } };

/** Writes a history into a log that other histories may be in already: its subjects are its own. */
export class HistoryWriter {
  readonly #writer: Pick<Writer, 'append' | 'control' | 'correct'>;
  readonly #accounts = Array.from({ length: ACCOUNTS }, () => publicId());
  readonly #keys = Array.from({ length: KEYS }, () => publicId());
  readonly #plans = Array.from({ length: PLANS }, () => `plan-${publicId().toLowerCase()}`);
  readonly #versions = new Map<string, number>();
  readonly #positions = [0];
  /** The position of the newest reset of the windows of each account and key. */
  readonly #resets = new Map<string, number>();
  #running: Running[] = [];
  #waiting: RequestEvent[] = [];
  /** Calls that have ended, as a correction names them. */
  readonly #ended: Corrected[] = [];
  #references = 0;

  constructor(writer: Pick<Writer, 'append' | 'control' | 'correct'>) {
    this.#writer = writer;
  }

  async write(steps: readonly HistoryStep[]): Promise<void> {
    for (const plan of this.#plans)
      await this.#control({ type: 'plan.defined', plan, terms: { quotas: QUOTAS }, actor: 'test' });
    for (const [index, account] of this.#accounts.entries()) {
      await this.#control({ type: 'account.registered', account, name: `The "${account}"`, actor: 'test' });
      await this.#control({
        type: 'account.plan_changed',
        account,
        plan: this.#pick(this.#plans, index),
        windows: 'keep',
        actor: 'test',
      });
    }
    for (const key of this.#keys) {
      await this.#control({
        type: 'key.created',
        account: this.#accountOf(key),
        key,
        name: 'k',
        digest: DIGEST,
        last4: 'last',
        actor: 'test',
      });
    }
    for (const each of steps) await this.#take(each);
    await this.#flush();
  }

  async #take(each: HistoryStep): Promise<void> {
    switch (each.kind) {
      case 'accept':
        return this.#accept(each);
      case 'refuse': {
        const key = this.#pick(this.#keys, each.whose);
        return this.#request({
          type: 'request.rejected',
          route: each.route,
          ...(each.model === undefined ? {} : { model: each.model }),
          ...each.attribution,
          request: uuidv7(),
          account: this.#accountOf(key),
          key,
          error_code: each.error,
          status: each.error === 'rate_limit_exceeded' ? 429 : 403,
          rejected_count: each.times,
        });
      }
      case 'extend':
      case 'settle':
      case 'abandon': {
        const call = this.#running[each.which % Math.max(1, this.#running.length)];
        return call && this.#goOn(call, each);
      }
      case 'correct': {
        const call = this.#ended[each.which % Math.max(1, this.#ended.length)];
        return call && this.#correct(call, each);
      }
      default: {
        const event = this.#change(each);
        return this.#control(event);
      }
    }
  }

  #accept({
    whose: who,
    model,
    route,
    attribution: whom,
    sse,
    count: bytes,
    hold,
    cost,
    parents: levels,
    observed: named,
    ago,
    behind,
  }: HistoryStep & { kind: 'accept' }): void {
    const key = this.#pick(this.#keys, who);
    const amounts = { hold_tokens: hold, ...(cost === undefined ? {} : { hold_cost_nanousd: cost }) };
    const terms_position = this.#positions.at(-1 - behind) ?? 0;
    const admission = ago === null ? {} : { admitted_minute: minuteOf(Date.now()) - ago, terms_position };
    const parents = levels === 0 ? undefined : this.#others(this.#accountOf(key)).slice(0, levels);
    const subjects = expectedSubjects({ account: this.#accountOf(key), key, parents, ...whom });
    const observed = named.map((number): ObservedRejection => {
      const { meter, window } = QUOTAS[number % QUOTAS.length] as (typeof QUOTAS)[number];
      const { name } = subjects[number % subjects.length] as ExpectedSubject;
      return { subject: name, meter, window, limit: 9, needed: 7, ...(number % 3 === 0 ? {} : { free: 5 }) };
    });
    const event = {
      type: 'request.accepted' as const,
      route,
      ...whom,
      request: uuidv7(),
      account: this.#accountOf(key),
      key,
      model,
      sse,
      body_bytes: bytes,
      ...(parents === undefined ? {} : { parents }),
      ...(observed.length === 0 ? {} : { observed }),
      ...amounts,
      ...admission,
    };
    this.#request(event);
    this.#running.push({ ...event, hold: amounts });
  }

  #goOn(call: Running, each: HistoryStep & { kind: 'extend' | 'settle' | 'abandon' }): void {
    const { request, account, key, model, route, admitted_minute, terms_position } = call;
    const { end_user, session, tags, parents, observed } = call;
    const same = {
      request,
      account,
      key,
      model,
      route,
      ...(end_user === undefined ? {} : { end_user }),
      ...(session === undefined ? {} : { session }),
      ...(tags === undefined ? {} : { tags }),
      ...(parents === undefined ? {} : { parents }),
      ...(observed === undefined ? {} : { observed }),
      ...(admitted_minute === undefined ? {} : { admitted_minute, terms_position: terms_position ?? 0 }),
    };
    if (each.kind === 'extend') {
      call.hold = {
        hold_tokens: each.hold,
        ...(each.cost === undefined ? {} : { hold_cost_nanousd: each.cost }),
      };
      return this.#request({ type: 'request.extended', ...same, ...call.hold });
    }
    this.#running = this.#running.filter((other) => other !== call);
    if (each.kind === 'abandon') {
      this.#ended.push({ ...same, end_reason: 'abandoned' });
      return this.#request({
        type: 'request.abandoned',
        ...same,
        end_reason: 'abandoned',
        usage_source: 'estimated',
        ...call.hold,
      });
    }
    const { reason, source, status, upstream, input, output, cost, upstreamCost, first, duration } = each;
    this.#ended.push({
      ...same,
      end_reason: reason,
      status,
      ...(upstream === undefined ? {} : { upstream }),
    });
    this.#request({
      type: 'request.settled',
      ...same,
      end_reason: reason,
      usage_source: source,
      ...(upstream === undefined ? {} : { upstream }),
      status,
      input_tokens: input,
      cache_read_tokens: Math.floor(input / 2),
      ...(input % 3 === 0 ? { cache_write_tokens: Math.floor(input / 3) } : {}),
      output_tokens: output,
      reasoning_tokens: Math.floor(output / 3),
      ...(cost === undefined ? {} : { cost_nanousd: cost, price_version: 3 }),
      ...(upstreamCost === undefined ? {} : { upstream_cost_nanousd: upstreamCost }),
      attempt_count: 1,
      ...(first === undefined ? {} : { first_byte_ms: first }),
      duration_ms: duration,
    });
  }

  async #correct(call: Corrected, each: HistoryStep & { kind: 'correct' }): Promise<void> {
    const { cost, upstreamCost, input, output, hold } = each;
    await this.#flush();
    await this.#writer.correct([
      {
        type: 'usage.adjusted',
        ...call,
        ...(cost === undefined ? {} : { cost_nanousd: cost }),
        ...(upstreamCost === undefined ? {} : { upstream_cost_nanousd: upstreamCost }),
        ...(input === undefined
          ? {}
          : { input_tokens: input, cache_read_tokens: input >> 1, cache_write_tokens: input >> 2 }),
        ...(output === undefined ? {} : { output_tokens: output, reasoning_tokens: output >> 1 }),
        ...(hold === undefined ? {} : { hold_tokens: hold }),
        reference: `test "${++this.#references}"`,
        reason: 'a "test"\nof one',
        adjusted_by: 'test',
      },
    ]);
  }

  #change(
    each: Exclude<HistoryStep, { kind: 'accept' | 'extend' | 'settle' | 'abandon' | 'refuse' | 'correct' }>,
  ): ControlEvent {
    const account = this.#pick(this.#accounts, each.whose);
    const key = this.#pick(this.#keys, each.whose);
    const plan = this.#pick(this.#plans, each.whose);
    const ofKey = { account: this.#accountOf(key), key, actor: 'test' };
    switch (each.kind) {
      case 'plan':
        return { type: 'plan.changed', plan, terms: each.terms, windows: each.windows, actor: 'test' };
      case 'retire':
        return { type: 'plan.retired', plan, actor: 'test' };
      case 'put':
        return {
          type: 'account.plan_changed',
          account,
          plan: each.isOn ? this.#pick(this.#plans, each.whose >> 1) : null,
          windows: each.windows,
          actor: 'test',
        };
      case 'adjust': {
        const { meter, window } = QUOTAS[each.which % QUOTAS.length] as (typeof QUOTAS)[number];
        return {
          type: 'quota.adjusted',
          ...(each.isOfKey ? ofKey : { account, actor: 'test' }),
          meter,
          amount: each.units,
          window,
          window_start: windowStart(window, minuteOf(Date.now()) - each.ago),
          // One of some change of the account's or the key's windows, or of none.
          reset_position: each.whose % 2 === 0 ? 0 : (this.#resets.get(each.isOfKey ? key : account) ?? 0),
          reason: 'a "test"',
        };
      }
      case 'top up':
        return {
          type: 'account.topped_up',
          account,
          amount_nanousd: each.cost,
          reference: 'invoice "7"',
          actor: 'test',
        };
      case 'parent':
        return {
          type: 'account.parent_changed',
          account,
          parent: each.isOn ? (this.#others(account)[0] ?? null) : null,
          actor: 'test',
        };
      case 'override':
        return {
          type: 'account.terms_overridden',
          account,
          terms: each.terms,
          windows: each.windows,
          actor: 'test',
        };
      case 'restrict':
        return { type: 'key.restricted', ...ofKey, terms: each.terms, windows: each.windows };
      case 'turn':
        if (each.to === 'suspended' || each.to === 'reinstated')
          return { type: `account.${each.to}`, account, actor: 'test' };
        if (each.to === 'revoked' || each.to === 'expired') return { type: `key.${each.to}`, ...ofKey };
        if (each.to === 'rotated')
          return {
            type: 'key.rotated',
            ...ofKey,
            digest: DIGEST,
            last4: 'next',
            ...(each.until === undefined ? {} : { overlap_ends_at: each.until }),
          };
        return {
          type: 'model.priced',
          model: `${plan}*`,
          base: { input: each.whose, cache_read: 0, output: 2, reasoning: 3 },
          source: 'manual',
          actor: 'test',
        };
    }
  }

  #accountOf(key: string): string {
    return this.#pick(this.#accounts, this.#keys.indexOf(key));
  }

  #others(account: string): string[] {
    return this.#accounts.filter((other) => other !== account);
  }

  #pick(from: readonly string[], index: number): string {
    return from[index % from.length] as string;
  }

  #request(event: RequestEvent): void {
    this.#waiting.push(event);
  }

  async #flush(): Promise<void> {
    if (this.#waiting.length > 0) await this.#writer.append(this.#waiting.splice(0));
  }

  async #control(event: ControlEvent): Promise<void> {
    await this.#flush();
    const stream = streamOf(event);
    const version = (this.#versions.get(stream) ?? 0) + 1;
    this.#versions.set(stream, version);
    const position = await this.#writer.control([{ event, version }]);
    this.#positions.push(position);
    if ('windows' in event && event.windows === 'reset' && 'account' in event)
      this.#resets.set('key' in event ? event.key : event.account, position);
  }
}

/** The digest of every secret here: it must not be found in any projection. */
export const DIGEST = 'd1'.repeat(32);
