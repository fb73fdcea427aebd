import type { ClientBase } from 'pg';

/** The tables of a projection live in this schema; a fresh copy is made in the other. */
export const LIVE_SCHEMA = 'projection';
export const BUILD_SCHEMA = 'projection_build';

/** The projections by name; each is a row of `daybook.projection`. */
export type ProjectionName = 'requests' | 'usage' | 'quotas' | 'directory';

/** A part of the log: the positions above `after`, up to `upTo`. */
export type Range = { after: number; upTo: number };

/**
 * Tables that are a function of the log. Any split of the log into ranges, taken in order, gives the
 * same rows: so a rebuild in large ranges equals what grew in small ones.
 */
export type Projection = {
  name: ProjectionName;
  /** Its tables, without schema, as `daybook.create_projection` makes them. Nothing else writes them. */
  tables: readonly string[];
  /** The tables whose old rows retention takes away, and the column of each with the time that decides it. */
  kept?: readonly { table: string; time: string }[];
  /**
   * Takes in the events of a range, within the caller's transaction. Tables are named without
   * schema: the search path says whether the live ones or a fresh copy are meant.
   * @throws {Error} of Postgres or of the vocabulary, when an event of the range can't be taken.
   */
  apply(client: ClientBase, range: Range): Promise<void>;
};
