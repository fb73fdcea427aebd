import { z } from 'zod';
import { SinkRow } from '#server/contract/sinks.ts';

/** Contract for the status of the service. Pure. */

/**
 * `GET /api/v1/status`, for administrators and auditors. The heartbeat of a `late` instance is overdue by
 * some seconds.
 */
export const Status = z.object({
  object: z.literal('status'),
  version: z.string(),
  now: z.string(),
  log: z.object({ position: z.number(), at: z.string().nullable() }),
  instances: z.array(
    z.object({
      id: z.number(),
      name: z.string(),
      kind: z.enum(['server', 'worker', 'other']),
      started_at: z.string(),
      heartbeat_at: z.string(),
      state: z.enum(['live', 'late']),
      /** Diagnostic lines that the process has dropped, and the code of the error its output fails with. */
      dropped_lines: z.number(),
      output_failure: z.string().nullable(),
    }),
  ),
  projections: z.array(
    z.object({
      name: z.string(),
      position: z.number(),
      behind: z.number(),
      as_of: z.string().nullable(),
      parked: z.number(),
      state: z.enum(['live', 'detached']),
    }),
  ),
  /** The worker's jobs, each over all workers; `reason` is why the newest failed run failed. */
  jobs: z.array(
    z.object({
      name: z.string(),
      state: z.enum(['ok', 'failing']),
      failures: z.number(),
      failing_since: z.string().nullable(),
      reason: z.string().nullable(),
      succeeded_at: z.string().nullable(),
    }),
  ),
  /** Receivers of spend events. */
  sinks: z.array(SinkRow),
  /** Open live feeds and running calls of this server process. */
  server: z.object({
    instance: z.number(),
    running: z.number(),
    viewers: z.number(),
    store: z.string(),
    /** Subjects that a newer version has changed, such as `key/abcdefgh`; this server rejects their calls. */
    unapplied: z.array(z.string()),
  }),
  upstreams: z.array(z.object({ name: z.string(), origin: z.string(), models: z.array(z.string()) })),
  postgres: z.string(),
});
export type Status = z.infer<typeof Status>;
