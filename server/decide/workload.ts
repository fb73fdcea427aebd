import type { EventOf } from '#db/events/events.ts';
import { ProviderName } from '#db/events/identity/identity-events.ts';
import { WORKLOADS_MAX, WorkloadTerms } from '#db/events/identity/workload-events.ts';
import type { Secret } from '#db/fold/key.ts';
import type { Workload } from '#db/fold/workload.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { createKey, type KeyCounts } from '#server/decide/key.ts';

type Configured = EventOf<'workload.configured'>;

/**
 * Changes the terms of a workload; null when nothing changes.
 * @throws {DecisionError} when the terms are invalid, or it belongs to another account.
 */
export function changeWorkload(
  known: Workload,
  command: { account: string; terms: WorkloadTerms; actor: string },
): Configured | null {
  const terms = parseTerms(command.terms);
  if (known.account !== command.account)
    throw new DecisionError(
      'not_allowed',
      `Workload "${known.name}" belongs to account ${known.account} and can't change it. Remove it first.`,
    );
  if (JSON.stringify(known.terms) === JSON.stringify(terms)) return null;
  const { name: workload, account, key } = known;
  return { type: 'workload.configured', workload, account, key, terms, actor: command.actor };
}

/**
 * Adds a workload with its key, which has no secret of its own.
 * @param command.secret of which no one has the plaintext.
 * @throws {DecisionError} when the terms are invalid, or there are too many workloads or keys.
 */
export function addWorkload(
  active: readonly Workload[],
  command: {
    name: string;
    account: string;
    key: string;
    secret: Secret;
    existing: KeyCounts;
    terms: WorkloadTerms;
    actor: string;
  },
  now: Date,
): [EventOf<'key.created'>, Configured] {
  const { name, account, key, secret, existing, actor } = command;
  const parsed = ProviderName.safeParse(name);
  if (!parsed.success)
    throw new DecisionError('invalid', `The name of a workload ${parsed.error.issues[0]?.message}.`);
  const terms = parseTerms(command.terms);
  if (active.length >= WORKLOADS_MAX)
    throw new DecisionError(
      'not_allowed',
      `There are ${WORKLOADS_MAX} workloads already, the maximum. Remove one first.`,
    );
  return [
    createKey(
      {
        id: key,
        account,
        existing,
        name: `workload ${name}`,
        secret,
        expiresAt: null,
        workload: name,
        actor,
      },
      now,
    ),
    { type: 'workload.configured', workload: name, account, key, terms, actor },
  ];
}

/** Removes a workload. Its key has to be revoked with it. */
export const removeWorkload = (
  { name: workload, account, key }: Workload,
  actor: string,
): EventOf<'workload.removed'> => ({ type: 'workload.removed', workload, account, key, actor });

function parseTerms(terms: WorkloadTerms): WorkloadTerms {
  const parsed = WorkloadTerms.safeParse(terms);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new DecisionError('invalid', `"${issue?.path.join('.')}": ${issue?.message}.`);
}
