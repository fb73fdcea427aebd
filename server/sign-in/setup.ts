import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Client } from 'pg';
import { closeClient, patient, type Store } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { findLink, hasSetupLink, lockSetup } from '#db/members/links.ts';
import { hasAdministrator, insertMember } from '#db/members/members.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { type Config, ConfigError } from '#server/process/config.ts';
import { type Control, withControl } from '#server/control/control.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { FIRST_ACCOUNT } from '#server/process/first-key.ts';
import { isUnwritable, SecretFile } from '#server/secrets/secret-file.ts';
import { digestOf } from '#server/sign-in/cookie.ts';
import { linkOf, makeLink } from '#server/sign-in/links.ts';
import { Passwords } from '#server/sign-in/passwords.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/**
 * Creation of the first administrator: by a setup link that only the operator sees, or by the
 * configuration. There is no default account or password, and being first to connect gives no rights.
 */

const fileOf = (config: Pick<Config, 'DAYBOOK_DATA'>): string =>
  path.join(config.DAYBOOK_DATA, 'setup-link.txt');

/** Where the link for the first administrator goes. */
export type SetupPlace = {
  /** The dashboard's origin. */
  origin: string;
  /** Whether the caller shows the link to a person. */
  isShown: boolean;
};

/**
 * What an operator can do to become the first administrator: open `link`, which is in `file` too if that is
 * set. Without a link another server has made one, or there is no place for one: `daybook setup-link`.
 */
export type SetupOffer = { link: string | null; file: string | null };

/**
 * Offers a setup link while no administrator exists: one for all servers on a database, in a file that only
 * its owner can read.
 * @returns null if an administrator exists, or if the database failed, which is logged.
 * @throws {ConfigError} if the configured administrator can't be created.
 */
export async function offerSetup(
  store: Store,
  config: Config,
  place: SetupPlace,
  log: Pick<Logger, 'error'>,
): Promise<SetupOffer | null> {
  try {
    return await offer(patient(store), config, place);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // The server goes on serving calls.
    log.error(errorFields(error), 'no setup link was made; once the database is well: daybook setup-link');
    return null;
  }
}

async function offer(store: Store, config: Config, place: SetupPlace): Promise<SetupOffer | null> {
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
    return await inTransaction(client, async () => {
      await lockSetup(client);
      const kept = readSetupToken(config);
      if (kept !== null && (await findLink(client, 'setup', digestOf(kept))) !== null)
        return writeLink(linkOf(place.origin, 'setup', kept), config);
      if (await hasSetupLink(client)) return { link: null, file: null };
      const file = SecretFile.open(fileOf(config));
      file?.discard();
      if (file === null && !place.isShown) return { link: null, file: null };
      const { link } = await makeLink(client, place.origin, { kind: 'setup' }, null);
      return writeLink(link, config);
    });
  } finally {
    await closeClient(client);
  }
}

/** A new setup link; earlier ones stay valid until they expire. */
export async function makeSetupLink(client: Client, config: Config, origin: string): Promise<string> {
  const { link } = await makeLink(client, origin, { kind: 'setup' }, null);
  writeLink(link, config);
  return link;
}

/** The secret of the link that an earlier start wrote into this data directory; null without one. */
function readSetupToken(config: Pick<Config, 'DAYBOOK_DATA'>): string | null {
  try {
    return readFileSync(fileOf(config), 'utf8').trim().split('#')[1] ?? null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EACCES') return null;
    throw error;
  }
}

/** Writes the link to its file, if the data directory is writable. */
function writeLink(link: string, config: Pick<Config, 'DAYBOOK_DATA'>): SetupOffer {
  const file = SecretFile.open(fileOf(config));
  file?.write(link);
  file?.publish();
  return { link, file: file?.path ?? null };
}

/** Deletes the file of the setup link. */
export function deleteSetupFile(config: Pick<Config, 'DAYBOOK_DATA'>): void {
  try {
    rmSync(fileOf(config), { force: true });
  } catch (error) {
    if (!isUnwritable(error)) throw error;
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
