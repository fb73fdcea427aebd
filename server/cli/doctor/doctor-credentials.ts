import type { Client } from 'pg';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
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
