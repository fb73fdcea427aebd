import type { RequestFilter } from '#server/contract/requests.ts';
import type { UsageQuery } from '#server/contract/usage.ts';
import { type Cursor, readCursor } from '#server/read/cursor.ts';
import type { ReadStore } from '#server/read/store.ts';
import { listRequests, REQUESTS } from '#server/read/request-list.ts';
import { REQUEST_DETAIL, readRequestDetail } from '#server/read/request-detail.ts';
import type { Scope } from '#server/read/scope.ts';
import { planUsage } from '#server/read/usage-plan.ts';
import { reportUsage, usageSource } from '#server/read/usage-report.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { accountId, keyId } from './fill.ts';

/** One question of the dashboard, asked as its route asks it. */
export type Question = {
  name: string;
  /** How many days of history it needs. */
  days: number;
  /** @param turn makes each asking another one: the next page, another request. */
  ask(reads: ReadStore, turn: number): Promise<void>;
};

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PAGES = 10;

const ALL: Scope = { account: null, key: null };
/** With a tenth of all requests. */
const LARGEST: Scope = { account: accountId(0), key: null };
const MIDDLE: Scope = { account: accountId(300), key: null };
const KEY: Scope = { account: accountId(300), key: keyId(300) };

/** @param nowMs the end of what is in the tables. */
export function questions(nowMs: number): Question[] {
  return [
    list('list: all accounts', ALL),
    list('list: largest account', LARGEST),
    list('list: a key', KEY),
    pages('list: further pages, largest account', LARGEST),
    list('list: common model, all accounts', ALL, { model: 'gpt-4o-mini' }),
    list('list: refused, all accounts', ALL, { outcome: 'refused' }),
    list('list: relay_failed, all accounts', ALL, { outcome: 'relay_failed' }),
    list('list: a status that never was, all accounts', ALL, { status: 418 }),
    list('list: a status that never was, largest account', LARGEST, { status: 418 }),
    list('list: one key of the largest account', LARGEST, { key: keyId(0), outcome: 'upstream_failed' }),
    list('list: a status that never was, 30 days of an account', MIDDLE, { status: 418 }, 30),
    list('list: running, all accounts', ALL, { outcome: 'running' }),
    list('list: running, largest account', LARGEST, { outcome: 'running' }),
    viewRequest('view request'),
    usage('usage: today, all accounts', 1, ALL, {}),
    usage('usage: 24 h by hour, all accounts', 1, ALL, { bucket: 'hour' }),
    usage('usage: 24 h by hour, largest account', 1, LARGEST, { bucket: 'hour' }),
    usage('usage: 24 h by hour and model, an account', 1, MIDDLE, { bucket: 'hour', group_by: ['model'] }),
    usage('usage: 24 h by hour and model with times, an account', 1, MIDDLE, {
      bucket: 'hour',
      group_by: ['model'],
      percentiles: true,
    }),
    usage('usage: 24 h by hour and model, largest account', 1, LARGEST, {
      bucket: 'hour',
      group_by: ['model'],
    }),
    usage('usage: 1 h by minute, all accounts', 1 / 24, ALL, { bucket: 'minute' }),
    usage('usage: 1 h by minute, largest account', 1 / 24, LARGEST, { bucket: 'minute' }),
    usage('usage: 24 h by account', 1, ALL, { group_by: ['account'] }),
    usage('usage: 7 d by account', 7, ALL, { group_by: ['account'] }),
    usage('usage: 30 d by account', 30, ALL, { group_by: ['account'] }),
    usage('usage: 30 d by day, all accounts', 30, ALL, { bucket: 'day' }),
    usage('usage: 30 d by day and model, a key', 30, KEY, { bucket: 'day', group_by: ['model'] }),
    usage('usage: 30 d by day and model, an account', 30, MIDDLE, { bucket: 'day', group_by: ['model'] }),
    usage('usage: 30 d by day and model, largest account', 30, LARGEST, {
      bucket: 'day',
      group_by: ['model'],
    }),
    usage('usage: 30 d by key, largest account', 30, LARGEST, { group_by: ['key'] }),
  ];

  function list(name: string, scope: Scope, filter: RequestFilter = {}, days = 1): Question {
    return { name, days, ask: async (reads) => void (await page(reads, scope, filter, days, null)) };
  }

  function pages(name: string, scope: Scope): Question {
    let after: Cursor | null = null;
    const ask: Question['ask'] = async (reads, turn) => {
      if (turn % PAGES === 0 || after === null) after = (await page(reads, scope, {}, 1, null)).after;
      else after = (await page(reads, scope, {}, 1, after)).after;
    };
    return { name, days: 1, ask };
  }

  function viewRequest(name: string): Question {
    let known: string[] = [];
    const ask: Question['ask'] = async (reads, turn) => {
      if (known.length === 0)
        known = (await page(reads, LARGEST, { outcome: 'completed' }, 1, null)).requests;
      const request = known[turn % known.length] as string;
      const told = unless(
        await reads.read(REQUEST_DETAIL, (client) => readRequestDetail(client, LARGEST, request)),
      );
      if (told.found?.has_all_events !== true) throw new Error(`request ${request} lacks events`);
    };
    return { name, days: 1, ask };
  }

  function usage(name: string, days: number, scope: Scope, query: UsageQuery): Question {
    const asked = { ...query, from: new Date(nowMs - days * DAY_MS), to: new Date(nowMs) };
    const plan = planUsage(asked, scope, nowMs);
    if (typeof plan === 'string') throw new Error(`${name}: ${plan}`);
    const ask: Question['ask'] = async (reads) => {
      const { found } = unless(
        await reads.read(usageSource(plan), (client) => reportUsage(client, scope, asked, plan)),
      );
      if (found.totals.requests === 0) throw new Error(`${name}: there was nothing`);
    };
    return { name: `${name} (${plan.table})`, days, ask };
  }

  async function page(
    reads: ReadStore,
    scope: Scope,
    filter: RequestFilter,
    days: number,
    after: Cursor | null,
  ): Promise<{ after: Cursor | null; requests: string[] }> {
    const wanted = { scope, filter, fromMs: nowMs - days * DAY_MS, toMs: null, after, limit: 50 };
    const { found } = unless(await reads.read(REQUESTS, (client) => listRequests(client, wanted)));
    return {
      after: found.next === null ? null : readCursor(found.next),
      requests: found.rows.map(({ request }) => request),
    };
  }
}

function unless<T>(answer: T | ApiError): T {
  if (answer instanceof ApiError) throw new Error(`refused: ${answer.message}`);
  return answer;
}
