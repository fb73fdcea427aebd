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
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/**
 * Creation of the first administrator: by a setup link that only the operator sees, or by the configuration.
 * There is no default account or password, and being first to connect gives no rights.
 */

const fileOf = (config: Pick<Config, 'DAYBOOK_DATA'>): string =>
  path.join(config.DAYBOOK_DATA, 'setup-link.txt');

/**
 * Creates a setup link while no administrator exists, in a file that only its owner can read, and returns it
 * for the console.
 * @param origin the dashboard's origin.
 * @returns null if an administrator exists, or if the database failed, which is logged.
 * @throws {ConfigError} if the configured administrator can't be created.
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
    // The server goes on serving calls.
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

/** A new setup link; earlier ones stay valid until they expire. */
export async function makeSetupLink(client: Client, config: Config, origin: string): Promise<string> {
  const { link } = await makeLink(client, origin, { kind: 'setup' }, null);
  writeSetupFile(fileOf(config), link);
  return link;
}

/**
 * Writes the link to a file for operators who missed the console. Skipped if the data directory isn't
 * writable.
 */
function writeSetupFile(file: string, link: string): void {
  try {
    // Replaced rather than overwritten, since an existing file keeps its permissions.
    rmSync(file, { force: true });
    writeFileSync(file, `${link}\n`, { mode: 0o600 });
  } catch (error) {
    if (!UNWRITABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
const UNWRITABLE = ['EACCES', 'EPERM', 'EROFS', 'ENOENT'];

/** Deletes the file of the setup link. */
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
      // A concurrent server created one first.
      if (await hasAdministrator(client)) return;
      const id = publicId();
      if (!(await insertMember(client, { id, email, passwordHash, role: 'administrator' }))) {
        throw new ConfigError(
          'ADMIN_EMAIL belongs to a member already. Run: daybook member role <email> administrator',
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
