import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Client } from 'pg';
import { closeClient, patient, type Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { lockSetup } from '#db/members/links.ts';
import { hasAdministrator, insertMember } from '#db/members/members.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { type Control, withControl } from '#server/control/control.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { FIRST_ACCOUNT } from '#server/process/prepare-store.ts';
import { makeLink } from '#server/sign-in/links.ts';
import { Passwords } from '#server/sign-in/passwords.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';

/**
 * How the first administrator comes to be: by a link that only who runs the server sees, or as the
 * configuration says. There is no account that everybody knows, and nobody is it for coming first.
 */

const fileOf = (config: Pick<Config, 'DAYBOOK_DATA'>): string =>
  path.join(config.DAYBOOK_DATA, 'setup-link.txt');

/**
 * Offers the setup link while no administrator is there: in a file that only its owner can read, and
 * to be printed.
 * @param origin the address of the dashboard.
 * @returns null where there is an administrator, by now or already; and where the store failed, which is in
 * the log.
 * @throws {ConfigError} where the administrator that the configuration names can't be made.
 */
export async function offerSetup(
  store: Store,
  config: Config,
  origin: string,
  log: Pick<Logger, 'error'>,
): Promise<string | null> {
  try {
    return await offer(patient(store), config, origin);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // Calls are served meanwhile.
    log.error(errorFields(error), 'no setup link was made; once the database is well: daybook setup-link');
    return null;
  }
}

async function offer(store: Store, config: Config, origin: string): Promise<string | null> {
  const client = await connectRelay(store);
  try {
    if (await hasAdministrator(client)) {
      deleteSetupFile(config);
      return null;
    }
    if (config.ADMIN_EMAIL !== undefined && config.ADMIN_PASSWORD !== undefined) {
      await makeAdministrator(store, config.ADMIN_EMAIL, config.ADMIN_PASSWORD);
      deleteSetupFile(config);
      return null;
    }
    return await makeSetupLink(client, config, origin);
  } finally {
    await closeClient(client);
  }
}

/** A fresh setup link; those before it stay good for their hour. */
export async function makeSetupLink(client: Client, config: Config, origin: string): Promise<string> {
  const { link } = await makeLink(client, origin, { kind: 'setup' }, null);
  writeSetupFile(fileOf(config), link);
  return link;
}

/**
 * For who did not see it printed. A server that keeps nothing on its disk has no such directory, and goes
 * without.
 */
function writeSetupFile(file: string, link: string): void {
  try {
    // Made anew, since an older file keeps the rights that somebody gave it.
    rmSync(file, { force: true });
    writeFileSync(file, `${link}\n`, { mode: 0o600 });
  } catch (error) {
    if (!UNWRITABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
const UNWRITABLE = ['EACCES', 'EPERM', 'EROFS', 'ENOENT'];

/** Nobody needs it any more. */
export function deleteSetupFile(config: Pick<Config, 'DAYBOOK_DATA'>): void {
  try {
    rmSync(fileOf(config), { force: true });
  } catch (error) {
    if (!UNWRITABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

async function makeAdministrator(store: Store, email: string, password: string): Promise<void> {
  const passwordHash = await new Passwords().hash(password);
  if (passwordHash instanceof ApiError)
    throw new ConfigError(`ADMIN_PASSWORD is not usable: ${passwordHash.message}`);
  await withControl(store, 'first-start', async (control, client) => {
    const account = await firstAccount(control);
    await inTransaction(client, async () => {
      await lockSetup(client);
      // Another server that starts now was faster.
      if (await hasAdministrator(client)) return;
      const id = publicId();
      if (!(await insertMember(client, { id, email, passwordHash, role: 'administrator' }))) {
        throw new ConfigError(
          'ADMIN_EMAIL is not usable: a member has this address already. Run: daybook member role <address> administrator',
        );
      }
      await control.append([
        {
          event: { type: 'member.added', member: id, account, role: 'administrator', actor: control.actor },
          version: 1,
        },
      ]);
    });
  });
}

async function firstAccount(control: Control): Promise<string> {
  const known = (await control.load()).accountNamed(FIRST_ACCOUNT);
  return (known ?? (await control.createAccount(FIRST_ACCOUNT))).id;
}
