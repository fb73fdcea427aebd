import { CALL_METRICS } from '#db/telemetry/call-catalogue.ts';
import type { MetricDefinition } from '#db/telemetry/definition.ts';
import { SERVICE_METRICS } from '#db/telemetry/service-catalogue.ts';

/** All metrics, in the order of the reply and of docs/metrics.md, which is generated from them. Pure. */

/** From a round trip on one machine to a timeout. */
const STORE_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5] as const;
const LAG_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5] as const;

export const SERVER_METRICS = {
  running: {
    name: 'daybook_running_requests',
    type: 'gauge',
    origin: 'server',
    help: 'Admitted requests that have not ended.',
    labels: [],
  },
  buffered: {
    name: 'daybook_buffered_bytes',
    type: 'gauge',
    unit: 'bytes',
    origin: 'server',
    help: 'Memory that the bodies and replies of open calls hold, bounded by MAX_BUFFERED_MB.',
    labels: [],
  },
  ready: {
    name: 'daybook_ready',
    type: 'gauge',
    origin: 'server',
    help: '1 while the process accepts calls, as /readyz reports.',
    labels: [],
  },
  circuit: {
    name: 'daybook_upstream_circuit',
    type: 'gauge',
    origin: 'server',
    help: '1 for the present state of the circuit breaker of an upstream, 0 for the others.',
    labels: ['upstream', 'state'],
  },
  openCredentials: {
    name: 'daybook_upstream_open_credentials',
    type: 'gauge',
    origin: 'server',
    help: 'Credentials of an upstream whose circuit breaker is open.',
    labels: ['upstream'],
  },
  runningAttempts: {
    name: 'daybook_upstream_running_attempts',
    type: 'gauge',
    origin: 'server',
    help: 'Attempts that wait for an upstream or receive its reply.',
    labels: ['upstream'],
  },
  appenderUp: {
    name: 'daybook_appender_up',
    type: 'gauge',
    origin: 'server',
    help: '1 while events can be appended to the log; at 0 calls get 503 store_unavailable.',
    labels: [],
  },
  appenderQueue: {
    name: 'daybook_appender_queue_events',
    type: 'gauge',
    origin: 'server',
    help: 'Events that wait for their batch.',
    labels: [],
  },
  appendDuration: {
    name: 'daybook_append_duration_seconds',
    type: 'histogram',
    unit: 'seconds',
    origin: 'server',
    help: 'Round trip of an append, which commits a batch of events.',
    labels: [],
    buckets: STORE_SECONDS,
  },
  appendedEvents: {
    name: 'daybook_appended_events',
    type: 'counter',
    origin: 'server',
    help: 'Events that the appends have committed.',
    labels: [],
  },
  leaseDuration: {
    name: 'daybook_lease_exchange_duration_seconds',
    type: 'histogram',
    unit: 'seconds',
    origin: 'server',
    help: 'Round trip of a lease request.',
    labels: [],
    buckets: STORE_SECONDS,
  },
  leaseSubjects: {
    name: 'daybook_lease_subjects',
    type: 'gauge',
    origin: 'server',
    help: 'Accounts, keys, end users, sessions and tags of which the process holds leases.',
    labels: [],
  },
  spansExported: {
    name: 'daybook_spans_exported',
    type: 'counter',
    origin: 'server',
    help: 'Spans that the collector has received.',
    labels: [],
  },
  spansDropped: {
    name: 'daybook_spans_dropped',
    type: 'counter',
    origin: 'server',
    help: 'Spans dropped because the queue was full, or the collector refused or did not receive them.',
    labels: [],
  },
  readModelPosition: {
    name: 'daybook_read_model_position',
    type: 'gauge',
    origin: 'server',
    help: 'Position of the log up to which accounts, keys, plans, models and prices are known.',
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;

export const WORKER_METRICS = {
  jobs: {
    name: 'daybook_job_runs',
    type: 'counter',
    origin: 'worker',
    help: 'Ended runs of background jobs.',
    labels: ['task', 'outcome'],
  },
} as const satisfies Record<string, MetricDefinition>;

export const PROCESS_METRICS = {
  instance: {
    name: 'daybook_instance',
    type: 'gauge',
    origin: 'all',
    help: 'Number of the instance that the process appends as.',
    labels: [],
  },
  abandoned: {
    name: 'daybook_requests_abandoned',
    type: 'counter',
    origin: 'all',
    help:
      'Requests that the process has recorded as abandoned: of dead instances, and lost lines of batches ' +
      'and background responses.',
    labels: [],
  },
  eventLoopLag: {
    name: 'daybook_event_loop_lag_seconds',
    type: 'histogram',
    unit: 'seconds',
    origin: 'all',
    help: 'How late the event loop was for a timer, ten times a second.',
    labels: [],
    buckets: LAG_SECONDS,
  },
  droppedLines: {
    name: 'daybook_diagnostic_lines_dropped',
    type: 'counter',
    origin: 'all',
    help: 'Diagnostic lines dropped because the output did not take them.',
    labels: [],
  },
  cpu: {
    name: 'process_cpu_seconds',
    type: 'counter',
    unit: 'seconds',
    origin: 'all',
    help: 'User and system CPU time.',
    labels: [],
  },
  memory: {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    unit: 'bytes',
    origin: 'all',
    help: 'Resident memory.',
    labels: [],
  },
  heap: {
    name: 'nodejs_heap_used_bytes',
    type: 'gauge',
    unit: 'bytes',
    origin: 'all',
    help: 'Used memory of the JavaScript heap.',
    labels: [],
  },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    unit: 'seconds',
    origin: 'all',
    help: 'Start of the process, in seconds since 1970.',
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;

/** Of the endpoint itself. */
export const ENDPOINT_METRICS = {
  processUp: {
    name: 'daybook_process_up',
    type: 'gauge',
    origin: 'all',
    help: '1 for a process that has answered the scrape, 0 for one that is gone or did not in time.',
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;

export const METRICS: readonly MetricDefinition[] = [
  CALL_METRICS,
  SERVER_METRICS,
  WORKER_METRICS,
  PROCESS_METRICS,
  SERVICE_METRICS,
  ENDPOINT_METRICS,
].flatMap((group) => Object.values<MetricDefinition>(group));
