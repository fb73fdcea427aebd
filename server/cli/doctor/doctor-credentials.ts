import type { Client } from 'pg';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { openCredentials } from '#server/upstreams/credential-store.ts';

/** Whether what upstreams ask for can be opened here, by its master key. */
export async function checkCredentials(
  client: Client,
  config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>,
): Promise<{ check: string; ok: boolean; detail: string }> {
  const check = 'credentials of upstreams';
  try {
    const { secrets, unopened } = await openCredentials(client, readKeys(masterKeyFile(config)));
    if (unopened.length === 0)
      return { check, ok: true, detail: secrets.size === 0 ? 'none' : `all ${secrets.size} open` };
    const told = unopened.map(({ id, upstream, why }) => `${id} of "${upstream}": ${why}`);
    return {
      check,
      ok: false,
      detail: `${unopened.length} of ${secrets.size + unopened.length} do not open: ${told.join('; ')}`,
    };
  } catch (error) {
    if (error instanceof ConfigError) return { check, ok: false, detail: error.message };
    throw error;
  }
}
