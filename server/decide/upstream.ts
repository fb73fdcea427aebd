import { UpstreamName } from '#db/events/parts.ts';
import type { EventOf } from '#db/events/events.ts';
import type { Model } from '#db/fold/model.ts';
import { allCredentials, type Upstream } from '#db/fold/upstream.ts';
import { CredentialLabel, type ProviderName, type UpstreamTerms } from '#db/events/upstream-events.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { sameTerms } from '#server/decide/terms.ts';
import { CREDENTIALS_MAX, SECRET_CHARACTERS_MAX, SECRET_SHOWN_MIN } from '#server/decide/bounds.ts';

/**
 * Adds an upstream. The name of a removed one can be used again.
 * @param configured the names of upstreams configured by the environment.
 * @throws {DecisionError} when the name is taken or invalid.
 */
export function addUpstream(
  upstream: Upstream | undefined,
  command: { name: string; terms: UpstreamTerms; actor: string },
  configured: ReadonlySet<string>,
): EventOf<'upstream.added'> {
  const { name, terms, actor } = command;
  if (!UpstreamName.safeParse(name).success) {
    throw new DecisionError(
      'invalid',
      'An upstream name has 1 to 64 of a-z, 0-9, ".", "_" and "-", and begins with a letter or a digit.',
    );
  }
  if (configured.has(name))
    throw new DecisionError(
      'already_exists',
      `The environment (DAYBOOK_UPSTREAMS or OPENAI_API_KEY) has an upstream named "${name}" already.`,
    );
  if (upstream?.state === 'active')
    throw new DecisionError('already_exists', `There is an upstream named "${name}" already.`);
  return { type: 'upstream.added', upstream: name, terms, actor };
}

/** Replaces the terms of an upstream; null if nothing changes. */
export function changeUpstream(
  upstream: Upstream,
  terms: UpstreamTerms,
  actor: string,
): EventOf<'upstream.changed'> | null {
  return sameTerms(upstream.terms, terms)
    ? null
    : { type: 'upstream.changed', upstream: upstream.name, terms, actor };
}

/**
 * Removes an upstream with its credentials.
 * @param models all models.
 * @throws {DecisionError} naming the models that would lose their only target.
 */
export function removeUpstream(
  upstream: Upstream,
  models: Iterable<Model>,
  actor: string,
): EventOf<'upstream.removed'> {
  const { name } = upstream;
  const stranded = [...models].filter(
    ({ state, terms }) =>
      state === 'active' && 'targets' in terms && terms.targets.every((target) => target.upstream === name),
  );
  if (stranded.length > 0) {
    const names = stranded.map((model) => `"${model.name}"`).join(', ');
    throw new DecisionError(
      'not_allowed',
      `Upstream "${name}" is the only target of ${names}. ` +
        `Redefine or retire ${stranded.length === 1 ? 'that model' : 'those models'} first.`,
    );
  }
  return { type: 'upstream.removed', upstream: name, actor };
}

/**
 * Adds a credential. The caller encrypts its secret.
 * @param command.replaces the id of a credential that is removed next, whose label may be used again.
 * @throws {DecisionError} when the label is taken, the secret is invalid, or there are too many credentials.
 */
export function addCredential(
  upstream: Upstream,
  command: {
    id: string;
    label: string;
    secret: string;
    purpose?: 'billing';
    replaces?: string;
    actor: string;
  },
): EventOf<'upstream.credential_added'> {
  const label = CredentialLabel.safeParse(command.label);
  if (!label.success) throw new DecisionError('invalid', 'A label has 1 to 100 characters.');
  checkSecret(command.secret, upstream.terms.provider);
  const others = allCredentials(upstream).filter(({ id }) => id !== command.replaces);
  if (others.some((each) => each.label === label.data))
    throw new DecisionError(
      'already_exists',
      `Upstream "${upstream.name}" has a credential with the label "${label.data}" already.`,
    );
  if (others.length >= CREDENTIALS_MAX)
    throw new DecisionError(
      'not_allowed',
      `Upstream "${upstream.name}" has ${CREDENTIALS_MAX} credentials already. Remove one first.`,
    );
  const { id, secret, purpose, actor } = command;
  const last4 = secret.length >= SECRET_SHOWN_MIN && /^[\x21-\x7e]*$/.test(secret) ? secret.slice(-4) : '';
  return {
    type: 'upstream.credential_added',
    upstream: upstream.name,
    credential: id,
    label: label.data,
    last4,
    ...(purpose ? { purpose } : {}),
    actor,
  };
}

/** Removes a credential. @throws {DecisionError} when the upstream has none of this id. */
export function removeCredential(
  upstream: Upstream,
  id: string,
  actor: string,
): EventOf<'upstream.credential_removed'> {
  if (!allCredentials(upstream).some((each) => each.id === id))
    throw new DecisionError('not_found', `Upstream "${upstream.name}" has no credential ${id}.`);
  return { type: 'upstream.credential_removed', upstream: upstream.name, credential: id, actor };
}

/**
 * A secret sent in a header must be valid in one; a package may need any text, such as a service account
 * file. The messages never contain the secret.
 */
function checkSecret(secret: string, provider: ProviderName): void {
  if (secret === '') throw new DecisionError('invalid', 'The secret is empty.');
  if (secret.length > SECRET_CHARACTERS_MAX)
    throw new DecisionError('invalid', `The secret has more than ${SECRET_CHARACTERS_MAX} characters.`);
  if (provider !== 'bridge' && !/^[\x21-\x7e]+$/.test(secret))
    throw new DecisionError(
      'invalid',
      'The secret must be printable ASCII without blanks: it is sent in a header.',
    );
}

/** The upstream that a command names. @throws {DecisionError} when it doesn't exist or was removed. */
export function requireUpstream(upstream: Upstream | undefined, name: string): Upstream {
  if (upstream?.state !== 'active')
    throw new DecisionError('not_found', `There is no upstream named "${name}".`);
  return upstream;
}
