import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { closeClient, connectAs, patient, StoreError, type Store } from '#db/postgres/connect.ts';
import { ownsSchema } from '#db/postgres/service-login.ts';
import {
  awaitMigrationTurn,
  BOOKKEEPING_SCHEMA,
  cannotMigrate,
  createSchema,
  isOneReleaseAhead,
  missingFrom,
  readApplied,
  upgradeSchema,
} from '#db/schema/apply.ts';
import { migrationNames, readSchema, SCHEMA_FOLDER } from '#db/schema/files.ts';

/**
 * Brings the database up to this version, in one transaction: a new database gets the schema as it is, an
 * existing one its missing migrations, changed functions and privileges. Any number of starters may do so
 * concurrently: one migrates, the others wait for it. A login that does not own the database only checks. A
 * database that the next release has migrated is left as it is: two adjacent releases serve together.
 * @param folder has the layout of db/schema.
 * @param release the version of that schema; this one's where it is absent.
 * @returns the names of the migrations and files that this call applied.
 * @throws {StoreError} naming the file that failed and the line; nothing is applied then.
 */
export async function migrate(
  store: Store,
  folder: string = SCHEMA_FOLDER,
  release?: string,
): Promise<string[]> {
  const client = await connectAs(patient(store), 'owner', MIGRATION_TIMEOUT_MS).catch((error: Error) => {
    throw cannotMigrate(error);
  });
  try {
    const schema = await readSchema(folder, release);
    const isOwner = await ownsSchema(client, BOOKKEEPING_SCHEMA);
    if (isOwner) await awaitMigrationTurn(client);
    const applied = await readApplied(client);
    if (applied !== null && isOneReleaseAhead(schema, applied)) return [];
    const missing = applied === null ? migrationNames(schema) : missingFrom(schema, applied);
    if (missing.length > 0 && !isOwner)
      throw new StoreError(
        `the database lacks ${missing[0]}, and this login may not migrate it: ` +
          'run "npm run migrate" with its owner\'s DATABASE_URL',
      );
    if (applied !== null) return isOwner ? await upgradeSchema(client, schema, applied) : [];
    await createSchema(client, schema, missing.at(-1) as string);
    return missing;
  } catch (error) {
    throw error instanceof StoreError ? error : cannotMigrate(error as Error);
  } finally {
    await closeClient(client);
  }
}
