import { type Client, DatabaseError } from 'pg';
import { z } from 'zod';
import type { Command } from '#db/command-line/command.ts';
import {
  closeClient,
  connectAs,
  externalStore,
  patient,
  type Store,
  StoreError,
} from '#db/postgres/connect.ts';
import { readEnvironment } from '#db/environment.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import { borrowStore } from '#db/postgres/store.ts';

/** One statement of a comparison goes through a whole table, row by row. */
const STATEMENT_TIMEOUT_MS = 3_600_000;

/** What an auditor's commands need to know of the environment. Unset and empty are the same. */
const Environment = z.object({
  DAYBOOK_DATA: z.string().default('./data'),
  DATABASE_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must start with postgres://')
    .optional(),
});
const SECRETS = ['DATABASE_URL'];

function readConfig(environment: NodeJS.ProcessEnv): z.infer<typeof Environment> {
  const parsed = Environment.safeParse(readEnvironment(environment, SECRETS, (line) => new StoreError(line)));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new StoreError(`${String(issue?.path[0])} is not usable: ${issue?.message}.`);
}

/**
 * Runs a command over a connection that only reads. A login that may be nothing but the auditor is
 * enough: nothing is migrated and nothing asked as anybody else.
 * @throws {StoreError} when the database can't be used as the auditor, or its log is not whole.
 */
export async function asAuditor(command: Command, work: (client: Client) => Promise<void>): Promise<void> {
  const { store, close } = await openAuditedStore(command);
  try {
    const client = await connectAs(patient(store), 'auditor', STATEMENT_TIMEOUT_MS).catch((error: Error) => {
      throw new StoreError(`the database is not usable as its auditor: no connection (${error.message})`, {
        cause: error,
      });
    });
    try {
      await work(client);
    } finally {
      await closeClient(client);
    }
  } catch (error) {
    throw forPeople(error);
  } finally {
    await close();
  }
}

async function openAuditedStore({
  surroundings,
}: Command): Promise<{ store: Store; close(): Promise<void> }> {
  const config = readConfig(surroundings.env);
  // The checks of a server are made as the owner, who an auditor need not be.
  if (config.DATABASE_URL !== undefined)
    return { store: externalStore(config.DATABASE_URL), close: async () => {} };
  return borrowStore(config, () => {});
}

/** A schema, table, column or function that isn't there; and one that this login may not read. */
const ANOTHER_VERSION = new Set(['3F000', '42P01', '42703', '42883']);
const NOT_ALLOWED = '42501';

function forPeople(error: unknown): unknown {
  if (isLogFault(error)) return new StoreError(error.message, { cause: error });
  if (!(error instanceof DatabaseError)) return error;
  if (ANOTHER_VERSION.has(error.code ?? ''))
    return new StoreError(
      'this database is not of the version of this program: start a server on it, or npm run migrate',
      { cause: error },
    );
  if (error.code === NOT_ALLOWED)
    return new StoreError(
      `this login may not read that: it needs the role daybook_auditor (${error.message})`,
      { cause: error },
    );
  return error;
}
