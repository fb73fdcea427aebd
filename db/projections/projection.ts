import type { ClientBase } from 'pg';
import type { EventPage } from '#db/projections/page/page.ts';

/** The schema of the live tables, and that of a copy being built. */
export const LIVE_SCHEMA = 'projection';
export const BUILD_SCHEMA = 'projection_build';

/** The projections by name; each is a row of `daybook.projection`. */
export type ProjectionName = 'requests' | 'usage' | 'history' | 'quotas' | 'directory';

/**
 * Tables that are a function of the log. Any split of the log into ranges, applied in order, gives
 * the same rows: a rebuild in large ranges equals the live tables, which grew in small ones.
 */
export type Projection = {
  name: ProjectionName;
  /** Its tables, without schema, as `daybook.create_projection` makes them. Nothing else writes them. */
  tables: readonly string[];
  /** The tables whose old rows retention deletes, each with the time column that decides. */
  kept?: readonly { table: string; time: string }[];
  /** Prepares the empty tables of a copy that will replace the live ones. */
  prepareCopy?(client: ClientBase, schema: string): Promise<void>;
  /**
   * Applies the events of a page, within the caller's transaction. Tables are named without
   * schema: the search path selects the live ones or a copy.
   * @throws {Error} of Postgres or of the event's schema, when an event of the page can't be applied.
   */
  apply(client: ClientBase, page: EventPage): Promise<void>;
};
