import type { SinkRow } from '#server/contract/sinks.ts';

/** Contract for the status of the service. Pure. */

/**
 * `GET /api/v1/status`, for administrators and auditors. The heartbeat of a `late` instance is overdue by
 * some seconds.
 */
export type Status = {
  object: 'status';
  version: string;
  now: string;
  log: { position: number; at: string | null };
  instances: {
    id: number;
    name: string;
    kind: 'server' | 'worker' | 'other';
    started_at: string;
    heartbeat_at: string;
    state: 'live' | 'late';
    /** Diagnostic lines that the process has dropped, and the code of the error its output fails with. */
    dropped_lines: number;
    output_failure: string | null;
  }[];
  projections: {
    name: string;
    position: number;
    behind: number;
    as_of: string | null;
    parked: number;
    state: 'live' | 'detached';
  }[];
  /** The worker's jobs, each over all workers; `reason` is why the newest failed run failed. */
  jobs: {
    name: string;
    state: 'ok' | 'failing';
    failures: number;
    failing_since: string | null;
    reason: string | null;
    succeeded_at: string | null;
  }[];
  /** Receivers of spend events. */
  sinks: SinkRow[];
  /** Open live feeds and running calls of this server process. */
  server: {
    instance: number;
    running: number;
    viewers: number;
    store: string;
    /** Subjects that a newer version has changed, such as `key/abcdefgh`; this server rejects their calls. */
    unapplied: string[];
  };
  upstreams: { name: string; /** Scheme, host and port. */ origin: string; models: string[] }[];
  postgres: string;
};
