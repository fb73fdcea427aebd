import type { Config } from '#server/process/config.ts';
import type { ControlWriter } from '#server/control/control-writer.ts';
import type { AuditChecks } from '#server/dashboard/audit/checks.ts';
import type { AuditReader } from '#server/dashboard/audit/reader.ts';
import type { ReconcileTasks } from '#server/dashboard/reconcile/tasks.ts';
import type { Backtests } from '#server/dashboard/backtests/backtests.ts';
import type { FindSession } from '#server/sign-in/signed-in.ts';
import type { ReadStore } from '#server/read/store.ts';
import type { ModelList } from '#server/models/model-list.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { SignInStore } from '#server/sign-in/store.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import type { CredentialStore } from '#server/upstreams/credential-store.ts';

/** Dependencies of the dashboard's routes. */
export type Dashboard = {
  relay: Relay;
  config: Config;
  reads: ReadStore;
  control: ControlWriter;
  audit: AuditReader;
  checks: AuditChecks;
  reconcileTasks: ReconcileTasks;
  backtests: Backtests;
  credentials: Pick<CredentialStore, 'refresh'>;
  modelList: ModelList;
  find: FindSession;
  signIn: SignInStore;
  log: Logger;
  /** Open live feeds of this process. */
  viewers: () => number;
  /** The server's origin, as far as it knows by itself. */
  origin: () => string;
};
