import type { Client } from 'pg';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { closeClient, connectAs, type Role, StoreError } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { compare, type Comparison, isEqual } from '#db/projections/compare.ts';
import { parseProjection, showComparison } from '#db/projections/comparison-text.ts';
import type { Projection } from '#db/projections/projection.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';
import { rebuild } from '#db/projections/rebuild.ts';
import { type ProjectionStatus, readProjectionStatus } from '#db/projections/state.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { readConfig } from '#server/process/config.ts';

/** Covers a page of a copy, an index of a large table, or the comparison of a table row by row. */
const STATEMENT_TIMEOUT_MS = 3_600_000;

/** `daybook projections …` */
export function projectionCommands(program: Command): void {
  const projections = program
    .command('projections')
    .description('projections, the tables derived from the log');

  withJson(projections.command('status'))
    .description('print the position and the parked events of each projection')
    .action((_options: unknown, command: Command) =>
      using(command, 'relay', async (client) =>
        print(command, await readProjectionStatus(client), showStatus),
      ),
    );

  withJson(
    projections.command('rebuild').argument('[name]', 'the projection; all when absent', parseProjection),
  )
    .description('rebuild projections from the log beside those in use, then swap them')
    .action((only: Projection | undefined, _options: unknown, command: Command) =>
      using(command, 'worker', async (client) => {
        const rebuilt = [];
        for (const projection of only ? [only] : PROJECTIONS)
          rebuilt.push({ projection: projection.name, ...(await rebuild(client, projection)) });
        print(command, rebuilt, (rows) =>
          rows
            .map(
              ({ projection, position, parked }) =>
                `${projection}: rebuilt up to position ${position}` +
                (parked > 0 ? `, ${parked} parked events` : ''),
            )
            .join('\n'),
        );
      }),
    );

  withJson(
    projections.command('check').argument('[name]', 'the projection; all when absent', parseProjection),
  )
    .description('compare projections with a replay of the log, row by row; exits with 1 when they differ')
    .action((only: Projection | undefined, _options: unknown, command: Command) =>
      using(command, 'auditor', async (client) => {
        const found: Comparison[] = [];
        for (const projection of only ? [only] : PROJECTIONS) found.push(await compare(client, projection));
        print(command, found, (rows) => rows.map(showComparison).join('\n'));
        if (!found.every(isEqual)) throw new FoundFault();
      }),
    );
}

/** Runs a command over a connection with this role and a long statement timeout. */
async function using(command: Command, role: Role, work: (client: Client) => Promise<void>): Promise<void> {
  const { store, close } = await borrowStore(readConfig(command.surroundings.env), () => {});
  try {
    await migrate(store);
    const client = await connectAs(store, role, STATEMENT_TIMEOUT_MS);
    try {
      await work(client);
    } finally {
      await closeClient(client);
    }
  } catch (error) {
    throw isLogFault(error) ? new StoreError(error.message, { cause: error }) : error;
  } finally {
    await close();
  }
}

function showStatus(rows: readonly ProjectionStatus[]): string {
  return showTable(
    ['projection', 'position', 'behind', 'as of', 'parked', 'state'],
    rows.map(({ projection, position, behind, as_of, parked, state }) => [
      projection,
      String(position),
      String(behind),
      as_of?.toISOString() ?? '-',
      String(parked),
      state,
    ]),
  );
}
