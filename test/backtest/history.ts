import type { ControlEvent, EventOf, Placed, PlanTerms } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { placeEvent } from '#db/log/read.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';

/** A log in memory with calls of one account, for tests that need no server. */

export const ACCOUNT = 'account1';
export const KEY = 'key00001';
const DIGEST = 'a'.repeat(64);

export class RecordedLog {
  readonly events: Placed[] = [];
  readonly #versions = new Map<string, number>();
  #at: number;
  #requests = 0;

  constructor(at: string) {
    this.#at = Date.parse(at);
    const actor = 'command-line';
    this.control({ type: 'account.registered', account: ACCOUNT, name: 'Acme', actor });
    this.control({
      ...{ type: 'key.created', account: ACCOUNT, key: KEY, name: 'app', actor },
      ...{ digest: DIGEST, last4: 'abcd' },
    });
  }

  /** The calls and changes from here on are at this time. */
  setTime(at: string): void {
    this.#at = Date.parse(at);
  }

  control(event: ControlEvent): void {
    const stream = streamOf(event);
    const version = (this.#versions.get(stream) ?? 0) + 1;
    this.#versions.set(stream, version);
    this.#add(event, stream, version);
  }

  plan(plan: string, terms: PlanTerms): void {
    const actor = 'command-line';
    this.control({ type: 'plan.defined', plan, terms, actor });
    this.control({ type: 'account.plan_changed', account: ACCOUNT, plan, windows: 'keep', actor });
  }

  price(model: string, terms: PriceTerms): void {
    const event = { type: 'model.priced', model, ...terms, source: 'manual', actor: 'command-line' };
    this.control(event as EventOf<'model.priced'>);
  }

  /** A call that was accepted. @returns its id. */
  accept(changes: Partial<EventOf<'request.accepted'>> = {}): string {
    this.#requests++;
    const request = `00000000-0000-7000-8000-${String(this.#requests).padStart(12, '0')}`;
    this.#add({
      ...{ type: 'request.accepted', request, account: ACCOUNT, key: KEY, model: 'gpt-5' },
      ...{
        route: '/v1/chat/completions',
        sse: false,
        body_bytes: 200,
        hold_tokens: 150,
        prompt_estimate: 50,
      },
      ...{ admitted_minute: Math.floor(this.#at / 60_000), terms_position: 2 },
      ...changes,
    });
    return request;
  }

  /** The end of a call. */
  settle(request: string, changes: Partial<EventOf<'request.settled'>> = {}): void {
    const { account, key, model, route, end_user, admitted_minute } = this.#acceptedOf(request);
    this.#add({
      ...{ type: 'request.settled', request, account, key, model, route, status: 200 },
      ...{ end_reason: 'completed', usage_source: 'provider', attempt_count: 1, duration_ms: 10 },
      ...{ input_tokens: 40, cache_read_tokens: 0, output_tokens: 60, reasoning_tokens: 0 },
      ...(end_user === undefined ? {} : { end_user }),
      ...(admitted_minute === undefined ? {} : { admitted_minute }),
      ...changes,
    });
  }

  /** A correction of a call, by the fields of its acceptance. */
  adjust(request: string, changes: Partial<EventOf<'usage.adjusted'>>): void {
    const { account, key, model, admitted_minute, observed } = this.#acceptedOf(request);
    this.#add({
      ...{ type: 'usage.adjusted', request, account, key, model, end_reason: 'completed' },
      ...{ reference: request, reason: 'a test', adjusted_by: 'command-line' },
      ...(admitted_minute === undefined ? {} : { admitted_minute }),
      ...(observed === undefined ? {} : { observed }),
      ...changes,
    });
  }

  reject(changes: Partial<EventOf<'request.rejected'>>): void {
    this.#add({
      ...{ type: 'request.rejected', request: '00000000-0000-7000-8000-000000999999', account: ACCOUNT },
      ...{ key: KEY, route: '/v1/chat/completions', model: 'gpt-5', body_bytes: 200, prompt_estimate: 50 },
      ...{ error_code: 'insufficient_quota', status: 429, rejected_count: 1 },
      ...{ admitted_minute: Math.floor(this.#at / 60_000) },
      ...changes,
    });
  }

  #acceptedOf(request: string): EventOf<'request.accepted'> {
    const accepted = this.events.find(
      ({ event }) => event.type === 'request.accepted' && event.request === request,
    );
    if (accepted === undefined) throw new Error(`the log has no request ${request}`);
    return accepted.event as EventOf<'request.accepted'>;
  }

  #add(event: Placed['event'], stream: string | null = null, version: number | null = null): void {
    const position = this.events.length + 1;
    this.events.push(
      placeEvent({ shard: 0, position, at: new Date(this.#at), instance: 1, event }, stream, version),
    );
  }
}
