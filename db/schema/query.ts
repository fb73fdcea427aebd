import {
  type Compilable,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  type SelectType,
  sql,
} from 'kysely';
import type { ClientBase, QueryResult } from 'pg';
import type { Functions, Tables } from '#db/schema/tables.ts';

/**
 * Builds queries with Kysely; the functions below run them on the clients and pools of the caller, who also
 * decides on transactions. So `db` has no connection, and its own `execute` methods fail.
 */
export const db: Kysely<Tables> = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (kysely) => new PostgresIntrospector(kysely),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** A client, or a pool. */
export type Queryable = Pick<ClientBase, 'query'>;

/** A query that `db` has built, or one in SQL: sql<Row>`…`. */
export type Query<Row> = Compilable<Row> | RawBuilder<Row>;

/** What pg returns of a column, for the rows of queries in SQL. */
export type Cell<Table extends keyof Tables, Column extends keyof Tables[Table]> = SelectType<
  Tables[Table][Column]
>;

/** What pg returns of a function. */
export type Result<Name extends keyof Functions> = SelectType<Functions[Name]>;

/** Stands in a statement for values that each run gives, by their names. */
export type Placeholders<Values> = { [Name in keyof Values]: RawBuilder<Values[Name]> };

class Placeholder {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/**
 * Compiles a query once, at its first run: for those that run so often that building them again would cost.
 * @param name of the prepared statement of a session.
 * @param build gets a placeholder for each value.
 * @returns runs it with values, and returns its rows.
 */
export function prepare<Values extends object, Row>(
  name: string,
  build: (values: Placeholders<Values>) => Query<Row>,
): (client: Queryable, values: Values) => Promise<Row[]> {
  const placeholders = new Proxy({} as Placeholders<Values>, {
    get: (_, key) => sql.val(new Placeholder(String(key))),
  });
  let compiled: { text: string; parameters: readonly unknown[] } | undefined;
  return async (client, values) => {
    if (compiled === undefined) {
      const { sql: text, parameters } = build(placeholders).compile(db);
      compiled = { text, parameters };
    }
    const { text, parameters } = compiled;
    const { rows } = await client.query({
      name,
      text,
      values: parameters.map((parameter) =>
        parameter instanceof Placeholder ? values[parameter.name as keyof Values] : parameter,
      ),
    });
    return rows as Row[];
  };
}

/**
 * Runs a query.
 * @param name makes it a prepared statement of the session: for frequent queries whose text never varies.
 * @returns its rows.
 */
export async function rowsOf<Row>(client: Queryable, query: Query<Row>, name?: string): Promise<Row[]> {
  return (await run(client, query, name)).rows as Row[];
}

/** Runs a query. @returns its first row; undefined if it returns no rows. */
export async function rowOf<Row>(
  client: Queryable,
  query: Query<Row>,
  name?: string,
): Promise<Row | undefined> {
  return (await rowsOf(client, query, name))[0];
}

/** Runs a query that returns one row whatever the tables hold. @returns the row. */
export async function onlyRowOf<Row>(client: Queryable, query: Query<Row>, name?: string): Promise<Row> {
  return (await rowsOf(client, query, name))[0] as Row;
}

/** Runs an insert, update or delete. @returns how many rows it changed. */
export async function countOf(client: Queryable, query: Query<unknown>, name?: string): Promise<number> {
  return (await run(client, query, name)).rowCount ?? 0;
}

/** Now, by Postgres' clock. */
export async function readClock(client: Queryable): Promise<Date> {
  return (
    await onlyRowOf(
      client,
      db.selectNoFrom(({ fn }) => fn<Date>('clock_timestamp').as('now')),
    )
  ).now;
}

function run(client: Queryable, query: Query<unknown>, name?: string): Promise<QueryResult> {
  const { sql: text, parameters } = query.compile(db);
  return client.query({ text, values: [...parameters], ...(name === undefined ? {} : { name }) });
}
