import type { Store } from '#db/connect.ts';
import type { Config } from '#server/config.ts';
import type { ControlSeat } from '#server/control-seat.ts';
import { eventRoutes } from '#server/dashboard/event-routes.ts';
import type { ApiRoute, FindSession } from '#server/dashboard/gate.ts';
import { playgroundRoutes } from '#server/dashboard/playground.ts';
import { readApiRoutes } from '#server/dashboard/read-api.ts';
import type { ReadStore } from '#server/dashboard/read-store.ts';
import type { ModelList } from '#server/relay/model-list.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { Logger } from '#server/telemetry.ts';

/** What the dashboard's routes work with. */
export type Dashboard = {
  relay: Relay;
  config: Config;
  store: Store;
  reads: ReadStore;
  control: ControlSeat;
  modelList: ModelList;
  find: FindSession;
  log: Logger;
  /** Open live feeds of this process. */
  viewers: () => number;
  /** What clients set as their base URL, as far as the server knows by itself. */
  baseUrl: () => string;
};

/** All routes of the dashboard's API. */
export function apiRoutes(dashboard: Dashboard): ApiRoute[] {
  return [...readApiRoutes(dashboard), ...eventRoutes(dashboard), ...playgroundRoutes(dashboard)];
}
