import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import { streamOf } from '#db/events/streams.ts';
import { accountAfter, isOf, keyAfter, planAfter, priceAfter } from '#db/projections/directory-rows.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import type { EventPage } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';

/** A table of the directory: its events, and how an event changes a row. */
type Table<E extends ControlEvent, Row extends object> = {
  name: string;
  idColumn: string & keyof Row;
  isOf: (placed: Placed<ControlEvent>) => placed is Placed<E>;
  idOf: (event: E) => string;
  after: (row: Row | undefined, placed: Placed<E>) => Row | null;
};

/** Applies events to the rows of a table: reads them as JSON, folds, and writes each row once. */
async function fold<E extends ControlEvent, Row extends object>(
  client: ClientBase,
  events: readonly Placed<ControlEvent>[],
  table: Table<E, Row>,
): Promise<void> {
  const { name, idColumn, idOf, after } = table;
  const own = events.filter(table.isOf);
  if (own.length === 0) return;
  const ids = [...new Set(own.map(({ event }) => idOf(event)))];
  // The search path selects the live table or a copy.
  const stored = db
    .selectFrom(sql<Record<string, unknown>>`${sql.table(name)}`.as('t'))
    .select(sql<object>`row_to_json(t)`.as('row'))
    .where(sql<boolean>`${sql.ref(idColumn)} = any(${ids})`);
  const rows = new Map<string, Row>();
  for (const { row } of await rowsOf(client, stored)) rows.set((row as Row)[idColumn] as string, row as Row);
  for (const placed of own) {
    const id = idOf(placed.event);
    const row = after(rows.get(id), placed);
    if (row) rows.set(id, row);
  }
  const changed = [...rows.values()];
  if (changed.length === 0) return;
  const columns = Object.keys(changed[0] as Row);
  const assignments = columns.map((column) => `${column} = excluded.${column}`);
  await client.query(
    `insert into ${name} (${columns.join(', ')})
        select ${columns.join(', ')} from json_populate_recordset(null::${name}, $1)
      on conflict (${idColumn}) do update set ${assignments.join(', ')}`,
    [JSON.stringify(changed)],
  );
}

/** The current accounts, keys, plans and prices, for lists. */
export const directory: Projection = {
  name: 'directory',
  tables: ['account', 'key', 'plan', 'model_price'],
  async apply(client: ClientBase, { control: events }: EventPage): Promise<void> {
    await fold(client, events, {
      name: 'account',
      idColumn: 'id',
      isOf: isOf.account,
      idOf: ({ account }) => account,
      after: accountAfter,
    });
    await fold(client, events, {
      name: 'key',
      idColumn: 'id',
      isOf: isOf.key,
      idOf: ({ key }) => key,
      after: keyAfter,
    });
    await fold(client, events, {
      name: 'plan',
      idColumn: 'name',
      isOf: isOf.plan,
      idOf: ({ plan }) => plan,
      after: planAfter,
    });
    await fold(client, events, {
      name: 'model_price',
      idColumn: 'stream',
      isOf: isOf.model_price,
      idOf: streamOf,
      after: priceAfter,
    });
  },
};
