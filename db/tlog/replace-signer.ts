import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { appendOnce } from '#db/log/append-once.ts';
import { formatVerifierKey, type Signer } from '#db/tlog/note.ts';
import { createSigningKey, readSigners } from '#db/tlog/signing-key.ts';
import { readStanding } from '#db/tlog/standing.ts';

/**
 * A key that signs from now on, as the line that auditors and witnesses know it by, and where the log says
 * so.
 */
export type Replaced = { verifier_key: string; position: number };

/**
 * Puts another key in the place of one that is lost. It is the one in the file, which is made where
 * there is none: the log says that it signs, and nothing signed by the old key vouches for it.
 * @throws {StoreError} when the key in the file signs already, or none has ever signed.
 */
export async function replaceSigner(client: ClientBase, file: string, actor: string): Promise<Replaced> {
  const { origin, signing } = await readStanding(client);
  if (signing.keys.length === 0)
    throw new StoreError('no key has signed this log yet: the worker makes one with the first checkpoint');
  createSigningKey(file);
  const [signer] = readSigners(file, origin) as Signer[];
  const line = formatVerifierKey(signer as Signer);
  if (signing.keys.at(-1)?.verifierKey === line)
    throw new StoreError(
      `${file} holds the key that signs this log: nothing is lost. To put another in its place: "daybook log rotate-key"`,
    );
  const event = { type: 'log.signer_changed' as const, verifier_key: line, actor };
  return {
    verifier_key: line,
    position: await appendOnce(client, 'replace-key', { event, version: signing.version + 1 }),
  };
}
