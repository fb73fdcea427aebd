import type { Client } from 'pg';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { openAccountKey } from '#db/attribution/keys.ts';
import { readAllAccountKeys } from '#db/attribution/store.ts';
import { UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';

/** Checks that the credentials of upstreams can be decrypted with the master key of this host. */
export async function checkCredentials(
  client: Client,
  config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>,
): Promise<Finding> {
  const check = 'upstream credentials';
  try {
    const { secrets, unopened } = await openCredentials(client, readKeys(masterKeyFile(config)));
    if (unopened.length === 0)
      return {
        check,
        ok: true,
        detail: secrets.size === 0 ? 'none' : `all ${secrets.size} can be decrypted`,
      };
    const total = secrets.size + unopened.length;
    const reasons = unopened.map(({ id, upstream, why }) => `${id} of "${upstream}": ${why}`);
    return {
      check,
      ok: false,
      detail: `${unopened.length} of ${total} can't be decrypted: ${reasons.join('; ')}`,
    };
  } catch (error) {
    if (error instanceof ConfigError) return { check, ok: false, detail: error.message };
    throw error;
  }
}

/** Checks that the accounts' keys of attribution can be decrypted with the master key of this host. */
export async function checkAttribution(
  client: Client,
  config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>,
): Promise<Finding> {
  const check = 'keys of attribution';
  try {
    const keys = readKeys(masterKeyFile(config)) ?? { current: '', all: new Map() };
    const stored = await readAllAccountKeys(client);
    const faults = new Map<string, number>();
    for (const sealed of stored) {
      try {
        openAccountKey(keys, sealed);
      } catch (error) {
        const fault = error instanceof UnknownMasterKeyError ? error.message : 'its row was modified';
        faults.set(fault, (faults.get(fault) ?? 0) + 1);
      }
    }
    if (faults.size === 0)
      return {
        check,
        ok: true,
        detail: stored.length === 0 ? 'none' : `all ${stored.length} can be decrypted`,
      };
    const reasons = [...faults].map(([fault, count]) => `${count}: ${fault}`);
    return {
      check,
      ok: false,
      detail: `of ${stored.length} accounts can't be decrypted: ${reasons.join('; ')}`,
    };
  } catch (error) {
    if (error instanceof ConfigError) return { check, ok: false, detail: error.message };
    throw error;
  }
}
