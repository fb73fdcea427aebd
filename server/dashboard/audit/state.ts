import type { ClientBase } from 'pg';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import { isAccountEvent, isKeyEvent, isPlanEvent } from '#db/events/subjects.ts';
import { type Account, accountTerms, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key, keyState } from '#db/fold/key.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { batchOf, positionAt } from '#db/log/lookup.ts';
import { readHead, readStream } from '#db/log/read.ts';
import { rowOf } from '#db/schema/query.ts';
import type { StateQuery, PastState, SubjectState } from '#server/contract/audit.ts';

/** Events of a subject that are listed: one page. */
const EVENTS_SHOWN_MAX = 50;

/** Where in the log is meant: what the state is of. */
export type Moment = { position: number; head: number; /** What an expiry is judged by. */ at: Date | null };

/** The position that a query means: the one it names, the last one at a time, or the head. */
export async function readMoment(
  client: ClientBase,
  { at, time }: Pick<StateQuery, 'at' | 'time'>,
): Promise<Moment> {
  const head = await readHead(client);
  // A time here has milliseconds, and the log's have microseconds: all of the millisecond is meant.
  const position =
    time === undefined
      ? Math.min(at ?? head, head)
      : (await positionAt(client, new Date(time.getTime() + 1), head)) - 1;
  if (position === 0) return { position, head, at: null };
  const batch = await rowOf(client, batchOf(position).select('at'));
  return { position, head, at: batch?.at ?? null };
}

/** A subject as it was then, folded from its events alone, archived ones included. */
export async function readState(client: ClientBase, query: StateQuery, moment: Moment): Promise<PastState> {
  const { position, head, at } = moment;
  const upTo = async (stream: string): Promise<Placed<ControlEvent>[]> =>
    (await readStream(client, stream)).filter((placed) => placed.position <= position);
  const own = await upTo(
    query.account === undefined
      ? query.key === undefined
        ? `plan/${query.plan}`
        : `key/${query.key}`
      : `account/${query.account}`,
  );
  return {
    object: 'state',
    position,
    at: at?.toISOString() ?? null,
    head,
    subject: await fold(query, own, query.time ?? at, (plan) => upTo(`plan/${plan}`)),
    events: own
      .toReversed()
      .slice(0, EVENTS_SHOWN_MAX)
      .map((placed) => ({ position: placed.position, at: placed.at.toISOString(), type: placed.event.type })),
    events_omitted: Math.max(0, own.length - EVENTS_SHOWN_MAX),
  };
}

type Events = readonly Placed<ControlEvent>[];

const isOf =
  <E extends ControlEvent>(isEvent: (event: ControlEvent) => event is E) =>
  (placed: Placed<ControlEvent>): placed is Placed<ControlEvent> & { event: E } =>
    isEvent(placed.event);

async function fold(
  { account, key }: StateQuery,
  events: Events,
  at: Date | null,
  planEvents: (plan: string) => Promise<Events>,
): Promise<SubjectState | null> {
  if (account !== undefined) {
    const found = events.filter(isOf(isAccountEvent)).reduce<Account | undefined>(evolveAccount, undefined);
    const plan = found?.plan == null ? undefined : foldPlan(await planEvents(found.plan));
    return found === undefined ? null : describeAccount(found, plan);
  }
  if (key !== undefined) {
    const found = events.filter(isOf(isKeyEvent)).reduce<Key | undefined>(evolveKey, undefined);
    return found === undefined ? null : describeKey(found, at ?? new Date(0));
  }
  const found = foldPlan(events);
  return found === undefined
    ? null
    : { kind: 'plan', name: found.name, state: found.state, terms: found.terms };
}

const foldPlan = (events: Events): Plan | undefined =>
  events.filter(isOf(isPlanEvent)).reduce<Plan | undefined>(evolvePlan, undefined);

function describeAccount(account: Account, plan: Plan | undefined): SubjectState {
  const { name, state, override } = account;
  return { kind: 'account', name, state, plan: account.plan, override, terms: accountTerms(account, plan) };
}

/** All fields but the digests of secrets. */
function describeKey(key: Key, at: Date): SubjectState {
  const { name, account, secret, createdAt, expiresAt, revokedAt, previous, terms } = key;
  return {
    kind: 'key',
    name,
    account,
    state: keyState(key, at),
    last4: secret.last4,
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
    revoked_at: revokedAt?.toISOString() ?? null,
    old_secret_until: previous === null || previous.endsAt <= at ? null : previous.endsAt.toISOString(),
    terms,
  };
}
