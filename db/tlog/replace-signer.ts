import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { appendOnce } from '#db/log/append-once.ts';
import { formatVerifierKey, type Signer } from '#db/tlog/note.ts';
import { createSigningKey, readSigners } from '#db/tlog/signing-key.ts';
import { readLogState } from '#db/tlog/log-state.ts';

/** The new verifier key, and the position of the event that records it. */
export type ReplacedSigner = { verifier_key: string; position: number };

/**
 * Replaces a lost signing key by the one in the file, which is generated if the file does not exist. An event
 * in the log records the new key; no signature of the old key vouches for it.
 * @throws {StoreError} when the key in the file is already in use, or no key has ever signed.
 */
export async function replaceSigner(
  client: ClientBase,
  file: string,
  actor: string,
): Promise<ReplacedSigner> {
  const { origin, signing } = await readLogState(client);
  if (signing.keys.length === 0)
    throw new StoreError(
      'no key has signed this log yet: the worker generates one with the first checkpoint',
    );
  createSigningKey(file);
  const [signer] = readSigners(file, origin) as Signer[];
  const line = formatVerifierKey(signer as Signer);
  if (signing.keys.at(-1)?.verifierKey === line)
    throw new StoreError(
      `${file} contains the key that signs this log, so it is not lost. To rotate it, run "daybook log ` +
        'rotate-key"',
    );
  const event = { type: 'log.signer_changed' as const, verifier_key: line, actor };
  return {
    verifier_key: line,
    position: await appendOnce(client, 'replace-key', { event, version: signing.version + 1 }),
  };
}
