import { type Totals, compareTexts, totalOf, type UsageRow } from '#db/audit/replay/totals.ts';
import type { QuotaWindow } from '#db/audit/replay/quota-windows.ts';
import type { ReplayState, Fault } from '#db/audit/replay/state.ts';
import { StoreError } from '#db/postgres/connect.ts';
import type { PlanTerms } from '#db/events/events.ts';
import type { Account } from '#db/fold/account.ts';
import { type Key, keyState } from '#db/fold/key.ts';
import { allCredentials, type Upstream } from '#db/fold/upstream.ts';
import type { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import { parseSubject } from '#db/limits/subjects.ts';
import { minuteOf } from '#db/limits/windows.ts';

/** A replayed state at a point in time, as the commands print it. Pure. */

export type StateSnapshot = {
  /** The last event that was applied, its time, and the point in time that is shown. */
  position: number;
  position_at: string;
  moment: string;
  accounts: ({
    id: string;
    name: string;
    state: string;
    plan: string | null;
    keys: number;
    active_keys: number;
    members: number;
    open_requests: number;
  } & Totals)[];
  keys: {
    id: string;
    account: string;
    name: string;
    state: string;
    last4: string;
    expires_at: string | null;
  }[];
  plans: { name: string; state: string; accounts: number; terms: PlanTerms }[];
  prices: number;
  /** With the public part of their credentials. */
  upstreams: {
    name: string;
    state: string;
    terms: UpstreamTerms;
    credentials: {
      id: string;
      label: string;
      last4: string;
      purpose: 'calls' | 'billing';
      added_at: string;
    }[];
  }[];
  models: { name: string; state: string; terms: ModelTerms }[];
  registration: { policy: string; plan: string | null };
  members: { id: string; account: string; role: string; state: string }[];
  usage: UsageRow[];
  total: Totals;
  open_requests: {
    request: string;
    account: string;
    key: string;
    model: string;
    position: number;
    accepted_at: string;
    hold_tokens: number;
    hold_cost_nanousd: number | null;
  }[];
  windows: ShownWindow[];
  /** Requests that ended, and were accepted before the first position that was read. */
  accepted_before: number;
  fault_count: number;
  faults: Fault[];
};

export type ShownWindow = Pick<
  QuotaWindow,
  'subject' | 'meter' | 'window' | 'enforcement' | 'settled' | 'held'
> & {
  account: string;
  starts_at: string;
  /** Null: the window never ends. */
  ends_at: string | null;
  reset_position: number;
  limit: number;
  free: number;
  /** False if the quota was changed since, so that only earlier requests are charged here. */
  in_force: boolean;
};

/**
 * Takes a snapshot of a state.
 * @param moment the point in time for states that depend on the clock (expired keys, current windows).
 * @param only the id of the one account to include.
 */
export function snapshotOf(state: ReplayState, moment: Date, only?: string): StateSnapshot {
  const { accounts, keys, plans, prices, upstreams, models, members, registration } = state.subjects;
  const isIncluded = (account: string): boolean => only === undefined || account === only;
  const included = [...accounts.values()]
    .filter(({ id }) => isIncluded(id))
    .toSorted((one, other) => compareTexts(one.name, other.name));
  const usage = state.usage.rows(only);
  const usageOf = Map.groupBy(usage, ({ account }) => account);
  const keysOf = Map.groupBy(keys.values(), ({ account }) => account);
  const openCalls = [...state.open.values()].filter(({ request }) => isIncluded(request.account));
  const openOf = Map.groupBy(openCalls, ({ request }) => request.account);
  const ownMembers = [...members.values()].filter(({ account }) => isIncluded(account));
  const membersOf = Map.groupBy(ownMembers, ({ account }) => account);
  const onPlan = Map.groupBy(accounts.values(), ({ plan }) => plan);
  return {
    position: state.position,
    position_at: state.at.toISOString(),
    moment: moment.toISOString(),
    accounts: included.map(({ id, name, state: own, plan }) => ({
      id,
      name,
      state: own,
      plan,
      keys: keysOf.get(id)?.length ?? 0,
      active_keys:
        keysOf.get(id)?.filter((key) => ['active', 'rotating'].includes(keyState(key, moment))).length ?? 0,
      members: membersOf.get(id)?.filter((member) => member.state === 'active').length ?? 0,
      open_requests: openOf.get(id)?.length ?? 0,
      ...totalOf(usageOf.get(id) ?? []),
    })),
    keys: [...keys.values()].filter(({ account }) => isIncluded(account)).map((key) => shownKey(key, moment)),
    plans: [...plans.values()]
      .filter(({ name }) => only === undefined || included.some(({ plan }) => plan === name))
      .map(({ name, state: own, terms }) => ({
        name,
        state: own,
        accounts: onPlan.get(name)?.length ?? 0,
        terms,
      })),
    prices: prices.size,
    upstreams: [...upstreams.values()].map(shownUpstream),
    models: [...models.values()].map(({ name, state: own, terms }) => ({ name, state: own, terms })),
    registration: { policy: registration.policy, plan: registration.plan },
    members: ownMembers.map(({ id, account, role, state: own }) => ({ id, account, role, state: own })),
    usage,
    total: totalOf(usage),
    open_requests: openCalls.map(
      ({ request: { id, account, key, model, holdTokens, holdCostNanousd }, position, at }) => ({
        request: id,
        account,
        key,
        model,
        position,
        accepted_at: at.toISOString(),
        hold_tokens: holdTokens,
        hold_cost_nanousd: holdCostNanousd,
      }),
    ),
    windows: shownWindows(state, moment).filter(({ account }) => isIncluded(account)),
    accepted_before: state.acceptedBefore,
    fault_count: state.faultCount,
    faults: state.faults,
  };
}

function shownUpstream(upstream: Upstream): StateSnapshot['upstreams'][number] {
  const { name, state, terms, credentials } = upstream;
  return {
    name,
    state,
    terms,
    credentials: allCredentials(upstream).map(({ id, label, last4, addedAt }) => ({
      id,
      label,
      last4,
      purpose: credentials.some((each) => each.id === id) ? 'calls' : 'billing',
      added_at: addedAt.toISOString(),
    })),
  };
}

function shownKey(key: Key, moment: Date): StateSnapshot['keys'][number] {
  const { id, account, name, secret, expiresAt } = key;
  return {
    id,
    account,
    name,
    state: keyState(key, moment),
    last4: secret.last4,
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

/** The quota windows that are current at a point in time, in the order of their subjects. */
export function shownWindows({ windows, subjects }: ReplayState, moment: Date): ShownWindow[] {
  const time = (minute: number): string => new Date(minute * 60_000).toISOString();
  return windows
    .running(minuteOf(moment.getTime()))
    .map(({ subject, meter, window, start, end, reset, cap, enforcement, settled, held, in_force }) => {
      const { account, key } = parseSubject(subject);
      return {
        subject,
        account: account ?? subjects.keys.get(key ?? '')?.account ?? '',
        meter,
        window,
        starts_at: time(start),
        ends_at: end === Infinity ? null : time(end),
        reset_position: reset,
        limit: cap,
        enforcement,
        settled,
        held,
        free: cap - settled - held,
        in_force,
      };
    })
    .toSorted(
      (one, other) =>
        compareTexts(one.subject, other.subject) ||
        compareTexts(one.meter, other.meter) ||
        compareTexts(one.starts_at, other.starts_at),
    );
}

/** Finds an account by its name or its id. @throws {StoreError} when it does not exist. */
export function findAccount(accounts: Iterable<Account>, nameOrId: string): Account {
  const found = [...accounts].find(({ id, name }) => id === nameOrId || name === nameOrId);
  if (found === undefined)
    throw new StoreError(`account "${nameOrId}" is not in the part of the log that was read`);
  return found;
}
