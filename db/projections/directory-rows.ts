import type { InsertType, SelectType } from 'kysely';
import {
  type AccountEvent,
  isAccountEvent,
  isKeyEvent,
  isPlanEvent,
  type KeyEvent,
  type PlanEvent,
} from '#db/events/subjects.ts';
import type { ControlEvent, EventOf, KeyTerms, Placed, PlanTerms } from '#db/events/events.ts';
import { evolveAccount } from '#db/fold/account.ts';
import { evolveKey } from '#db/fold/key.ts';
import { evolvePlan } from '#db/fold/plan.ts';
import { streamOf } from '#db/events/streams.ts';
import { evolvePrice } from '#db/fold/price.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { AccountTable, KeyTable, ModelPriceTable, PlanTable } from '#db/schema/tables.ts';

/**
 * The rows of the directory, and how an event changes each. They reuse the folds of the read model,
 * and add a few times for lists. Pure.
 */

/** A column's value in JSON: times are ISO 8601. */
type JsonValue<Column> =
  | (number extends InsertType<Column>
      ? number
      : Date extends SelectType<Column>
        ? string
        : Exclude<SelectType<Column>, null>)
  | Extract<SelectType<Column>, null>;
/** A row in JSON. `Known` has the types of columns that are JSON themselves, or have a vocabulary. */
type JsonRow<Table, Known extends Partial<Record<keyof Table, unknown>>> = {
  [Column in Exclude<keyof Table, keyof Known>]: JsonValue<Table[Column]>;
} & Known;

export type AccountRow = JsonRow<AccountTable, { state: 'active' | 'suspended'; override: PlanTerms | null }>;
export type KeyRow = JsonRow<KeyTable, { terms: KeyTerms | null }>;
export type PlanRow = JsonRow<PlanTable, { terms: PlanTerms }>;
export type PriceRow = JsonRow<ModelPriceTable, { terms: PriceTerms }>;

type PriceEvent = EventOf<'model.priced'>;

/** Fields of the folds that the tables don't have, and that no row depends on. */
const UNKNOWN = { termsPosition: 0, resetPosition: 0 };

/** @returns null for an event of an account that was never registered. */
export function accountAfter(row: AccountRow | undefined, placed: Placed<AccountEvent>): AccountRow | null {
  const { event, at, position } = placed;
  const account = evolveAccount(row && { ...row, ...UNKNOWN, toppedUp: row.topped_up_nanousd }, placed);
  if (!account) return null;
  const { id, state, plan, override, parent, toppedUp: topped_up_nanousd, version } = account;
  const registered_at = event.type === 'account.registered' || !row ? at.toISOString() : row.registered_at;
  return {
    id,
    name: storable(account.name),
    state,
    plan,
    override,
    parent,
    topped_up_nanousd,
    registered_at,
    version,
    position,
  };
}

/** @returns null for an event of a key that was never created. */
export function keyAfter(row: KeyRow | undefined, placed: Placed<KeyEvent>): KeyRow | null {
  const { event, at, position } = placed;
  const before = row && {
    ...UNKNOWN,
    id: row.id,
    account: row.account,
    name: row.name,
    createdAt: new Date(row.created_at),
    expiresAt: dateOf(row.expires_at),
    expiredAt: dateOf(row.expired_at),
    revokedAt: dateOf(row.revoked_at),
    // The tables have no digest, and no workload.
    secret: { digest: '', last4: row.last4 },
    workload: null,
    previous:
      row.overlap_ends_at === null
        ? null
        : { digest: '', last4: row.previous_last4 ?? '', endsAt: new Date(row.overlap_ends_at) },
    terms: row.terms,
    version: row.version,
  };
  const key = evolveKey(before, placed);
  if (!key) return null;
  return {
    id: key.id,
    account: key.account,
    name: storable(key.name),
    last4: key.secret.last4,
    created_at: key.createdAt.toISOString(),
    expires_at: timeOf(key.expiresAt),
    expired_at: timeOf(key.expiredAt),
    revoked_at: timeOf(key.revokedAt),
    rotated_at:
      event.type === 'key.rotated'
        ? at.toISOString()
        : event.type === 'key.created'
          ? null
          : (row?.rotated_at ?? null),
    overlap_ends_at: timeOf(key.previous?.endsAt ?? null),
    previous_last4: key.previous?.last4 ?? null,
    terms: key.terms,
    version: key.version,
    position,
  };
}

/** @returns null for an event of a plan that was never defined. */
export function planAfter(row: PlanRow | undefined, placed: Placed<PlanEvent>): PlanRow | null {
  const { event, at, position } = placed;
  const plan = evolvePlan(row && { ...row, state: row.retired_at === null ? 'active' : 'retired' }, placed);
  if (!plan) return null;
  const retired_at =
    event.type === 'plan.retired'
      ? at.toISOString()
      : plan.state === 'active'
        ? null
        : (row?.retired_at ?? null);
  return { name: plan.name, terms: plan.terms, retired_at, version: plan.version, position };
}

export function priceAfter(_: PriceRow | undefined, placed: Placed<PriceEvent>): PriceRow {
  const { pattern, plan, terms, source, version } = evolvePrice(placed);
  return {
    stream: streamOf(placed.event),
    model: pattern,
    plan,
    terms,
    source,
    version,
    position: placed.position,
  };
}

/** Selects the events of each table. */
export const isOf = {
  account: (placed: Placed<ControlEvent>): placed is Placed<AccountEvent> => isAccountEvent(placed.event),
  key: (placed: Placed<ControlEvent>): placed is Placed<KeyEvent> => isKeyEvent(placed.event),
  plan: (placed: Placed<ControlEvent>): placed is Placed<PlanEvent> => isPlanEvent(placed.event),
  model_price: (placed: Placed<ControlEvent>): placed is Placed<PriceEvent> =>
    placed.event.type === 'model.priced',
};

const dateOf = (time: string | null): Date | null => (time === null ? null : new Date(time));
const timeOf = (date: Date | null): string | null => date?.toISOString() ?? null;

/** Replaces characters that Postgres can't store: NUL, and unpaired surrogates. */
function storable(name: string): string {
  return name.toWellFormed().replaceAll('\0', '\ufffd');
}
