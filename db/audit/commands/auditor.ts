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
import { PostgresUrl } from '#db/configuration/values.ts';
import { readEnvironment } from '#db/environment.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { STATEMENT_TIMEOUT_MS } from '#db/audit/bounds.ts';

/** The environment variables of the audit commands. An empty value counts as unset. */
const Environment = z.object({
  DAYBOOK_DATA: z.string().default('./data'),
  DATABASE_URL: PostgresUrl.optional(),
});
const SECRETS = ['DATABASE_URL'];

function readConfig(environment: NodeJS.ProcessEnv): z.infer<typeof Environment> {
  const parsed = Environment.safeParse(readEnvironment(environment, SECRETS, (line) => new StoreError(line)));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new StoreError(`${String(issue?.path[0])} is invalid: ${issue?.message}.`);
}

/**
 * Runs a command over a read-only connection as the role `daybook_auditor`. A login that is a member of that
 * role alone is enough: nothing is migrated, and no other role is used.
 * @throws {StoreError} when the connection fails, or the log has a gap.
 */
export async function asAuditor(command: Command, work: (client: Client) => Promise<void>): Promise<void> {
  const { store, close } = await openAuditedStore(command);
  try {
    const client = await connectAs(patient(store), 'auditor', STATEMENT_TIMEOUT_MS).catch((error: Error) => {
      throw new StoreError(`can't connect to the database as daybook_auditor (${error.message})`, {
        cause: error,
      });
    });
    try {
      await work(client);
    } finally {
      await closeClient(client);
    }
  } catch (error) {
    throw explain(error);
  } finally {
    await close();
  }
}

async function openAuditedStore({
  surroundings,
}: Command): Promise<{ store: Store; close(): Promise<void> }> {
  const config = readConfig(surroundings.env);
  // A server's startup checks run as the owner, and an auditor may lack that role.
  if (config.DATABASE_URL !== undefined)
    return { store: externalStore(config.DATABASE_URL), close: async () => {} };
  return borrowStore(config, () => {});
}

/** SQLSTATEs: undefined schema, table, column or function; and insufficient privilege. */
const SCHEMA_MISMATCH = new Set(['3F000', '42P01', '42703', '42883']);
const INSUFFICIENT_PRIVILEGE = '42501';

function explain(error: unknown): unknown {
  if (isLogFault(error)) return new StoreError(error.message, { cause: error });
  if (!(error instanceof DatabaseError)) return error;
  if (SCHEMA_MISMATCH.has(error.code ?? ''))
    return new StoreError(
      'the schema of this database does not match this version: start a server on it, or run npm run migrate',
      { cause: error },
    );
  if (error.code === INSUFFICIENT_PRIVILEGE)
    return new StoreError(`permission denied: this login needs the role daybook_auditor (${error.message})`, {
      cause: error,
    });
  return error;
}
