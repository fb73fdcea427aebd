import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, rowsOf } from '#db/schema/query.ts';
import { type Key, keyState } from '#db/fold/key.ts';
import { readStreams } from '#db/log/read-streams.ts';
import { UnreadableEventError } from '#db/log/read.ts';
import { readSecretUse } from '#db/secrets/secret-use.ts';
import type { z } from 'zod';
import { newestFirst } from '#server/dashboard/newest-first.ts';
import { Matcher } from '#server/dashboard/search/find.ts';
import type { KeyRow, KeysQuery } from '#server/contract/keys.ts';
import type { MonthUsage } from '#server/contract/usage.ts';
import { monthOfKeys, NO_USAGE } from '#server/read/month-usage.ts';
import type { Source } from '#server/read/store.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

export const KEYS: Source = { projection: 'usage', tables: ['key', 'key_use', 'usage_day'] };

/** The newest keys that match, in their current state. @param account null: all accounts. */
export function chooseKeys(
  readModel: ReadModel,
  account: string | null,
  { search = '', ...page }: z.infer<typeof KeysQuery>,
): ReturnType<typeof newestFirst<Key>> {
  const matcher = new Matcher(search);
  const all = account === null ? [...readModel.keys] : readModel.keysOf(account);
  const fits = ({ name, id, secret }: Key): boolean =>
    matcher.fits(name) || matcher.fits(id) || matcher.fits(secret.last4);
  return newestFirst(all, fits, page);
}

/** Facts about a key that only the tables have. */
export type KeyFacts = {
  rotatedAt: Date | null;
  /** Last use of any of its secrets. */
  usedAt: Date | null;
  /** Last use per secret, by its last four characters, during rotations. */
  secretsUsed: ReadonlyMap<string, Date>;
  month: MonthUsage;
};

/** Reads them. The time of the last rotation comes from the log if the projection is behind. */
export async function readKeyFacts(
  client: ClientBase,
  keys: readonly Key[],
  nowMs: number,
): Promise<Map<string, KeyFacts>> {
  const ids = keys.map(({ id }) => id);
  const rows = await rowsOf(
    client,
    db
      .selectFrom(sql<{ id: string }>`unnest(${ids}::text[])`.as<'k'>(sql`k(id)`))
      .leftJoin('projection.key as t', 't.id', 'k.id')
      .leftJoin('projection.key_use as u', 'u.key', 'k.id')
      .select(['k.id', 't.version', 't.rotated_at', 'u.last_used_at']),
  );
  const months = await monthOfKeys(client, ids, [...new Set(keys.map(({ account }) => account))], nowMs);
  const used = Map.groupBy(await readSecretUse(client, ids), ({ key }) => key);
  const versions = new Map(keys.map(({ id, version }) => [id, version]));
  const behind = rows.filter(({ id, version }) => version === null || version < (versions.get(id) ?? 0));
  const rotations = await lastRotations(
    client,
    behind.map(({ id }) => id),
  );
  const facts = new Map<string, KeyFacts>();
  for (const { id, rotated_at, last_used_at } of rows) {
    facts.set(id, {
      rotatedAt: rotations.has(id) ? (rotations.get(id) ?? null) : rotated_at,
      usedAt: last_used_at,
      secretsUsed: new Map((used.get(id) ?? []).map(({ last4, usedAt }) => [last4, usedAt])),
      month: months.get(id) ?? NO_USAGE,
    });
  }
  return facts;
}

/** The last rotation of each key, from the log; null: never. */
async function lastRotations(client: ClientBase, ids: readonly string[]): Promise<Map<string, Date | null>> {
  const rotations = new Map<string, Date | null>(ids.map((id) => [id, null]));
  for (const row of await readStreams(
    client,
    ids.map((id) => `key/${id}`),
  )) {
    if (row instanceof UnreadableEventError) continue;
    if (row.event.type === 'key.rotated') rotations.set(row.event.key, row.at);
  }
  return rotations;
}

/** A key as a row of a list. Pure. */
export function keyRow(key: Key, accountName: string, facts: KeyFacts, now: Date): KeyRow {
  const state = keyState(key, now);
  const previous = state === 'rotating' ? key.previous : null;
  return {
    id: key.id,
    account: key.account,
    account_name: accountName,
    name: key.name,
    last4: key.secret.last4,
    workload: key.workload,
    state,
    created_at: key.createdAt.toISOString(),
    expires_at: timeOf(key.expiresAt),
    revoked_at: timeOf(key.revokedAt),
    rotated_at: timeOf(facts.rotatedAt),
    overlap_ends_at: timeOf(previous?.endsAt),
    previous_last4: previous?.last4 ?? null,
    last_used_at: timeOf(currentUsedAt(key, facts)),
    previous_last_used_at: previous ? timeOf(previousUsedAt(previous.last4, facts)) : null,
    terms: key.terms,
    month: facts.month,
  };
}

/**
 * Calls don't record which secret they used. Those after the last rotation and its overlap used the current
 * secret; uses within an overlap are recorded by the servers.
 */
function currentUsedAt({ secret, previous }: Key, { rotatedAt, usedAt, secretsUsed }: KeyFacts): Date | null {
  const aloneSince = later(rotatedAt, previous?.endsAt ?? null);
  const sinceAlone = usedAt !== null && (aloneSince === null || usedAt > aloneSince) ? usedAt : null;
  return later(sinceAlone, secretsUsed.get(secret.last4) ?? null);
}

/** Uses before the rotation used the old secret. */
function previousUsedAt(last4: string, { rotatedAt, usedAt, secretsUsed }: KeyFacts): Date | null {
  return (
    secretsUsed.get(last4) ?? (usedAt !== null && rotatedAt !== null && usedAt <= rotatedAt ? usedAt : null)
  );
}

const later = (one: Date | null, other: Date | null): Date | null =>
  one === null || (other !== null && other > one) ? other : one;
const timeOf = (date: Date | null | undefined): string | null => date?.toISOString() ?? null;
