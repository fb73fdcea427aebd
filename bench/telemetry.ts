import type { IncomingMessage } from 'node:http';
import type { EventOf } from '#db/events/events.ts';
import { readConfig } from '#server/process/config.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import type { CallObserver } from '#server/diagnostics/call-observer.ts';
import { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import { RequestLog } from '#server/diagnostics/request-log.ts';
import type { Relay } from '#server/relay/relay.ts';
import { ServerTelemetry } from '#server/telemetry/server-telemetry.ts';
import { ModelTable } from '#server/upstreams/model-table.ts';
import type { Goal } from './goals.ts';
import { median } from './median.ts';
import type { Stage } from './relay.ts';
import type { Settings } from './settings.ts';
import { figure, table } from './table.ts';

/** What the hooks of metrics and traces cost a call. */
export type TelemetryCost = { telemetry: string; cpuUs: number | null };
export type TelemetryReport = { telemetryCosts: TelemetryCost[]; goals: Goal[] };

const CALL_US_MAX = 3;
/** Of the measured seconds of a round, for each setting. */
const SHARE = 0.1;
const CALLS_AT_ONCE = 500;
const WARMUP_CALLS = 50_000;
/** Spans wait in the queue until it is full, and are dropped then: nothing listens. */
const NOWHERE = 'http://127.0.0.1:1/v1/traces';
const TRACES = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: NOWHERE };
const METRICS = { METRICS_PORT: '0' };

const SETTINGS: Record<string, Record<string, string> | null> = {
  off: null,
  metrics: METRICS,
  'metrics and 1 % of traces': {
    ...{ ...METRICS, ...TRACES },
    ...{ OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' },
  },
  'metrics and all traces': { ...METRICS, ...TRACES },
};

/** Measures the hooks alone, as a call with one attempt calls them; without sockets or a database. */
export async function benchTelemetry(settings: Settings, { signal }: Stage): Promise<TelemetryReport> {
  const measured = Object.entries(SETTINGS).map(([telemetry, environment]) => ({
    telemetry,
    call: hooksOf(environment),
    us: [] as number[],
  }));
  for (let round = 0; round < settings.rounds; round++)
    for (const { call, us } of round % 2 === 0 ? measured : measured.toReversed()) {
      signal.throwIfAborted();
      us.push(await cpuUsPerCall(call, settings.secs * SHARE));
    }
  const [off, ...on] = measured.map(({ us }) => us);
  const added = (us: readonly number[] = []): number | null =>
    median(us.map((each, round) => each - (off?.[round] ?? NaN)));
  const goal = (name: string, us: readonly number[] | undefined): Goal => ({
    name,
    measured: added(us),
    bound: 'at most',
    limit: CALL_US_MAX,
    unit: 'µs',
  });
  return {
    telemetryCosts: measured.map(({ telemetry, us }) => ({ telemetry, cpuUs: median(us) })),
    goals: [goal('CPU of metrics, a call', on[0]), goal('CPU of metrics and 1 % of traces, a call', on[1])],
  };
}

export function renderTelemetry({ telemetryCosts }: TelemetryReport): string {
  const rows = telemetryCosts.map(({ telemetry, cpuUs }) => [telemetry, figure(cpuUs)]);
  return `\ntelemetry\n${table(['', 'CPU µs/call'], rows)}`;
}

const log = createLogger('silent');
const requestLog = new RequestLog(log);

/** A call as the relay reports it, with its diagnostics, which it has anyway. */
function hooksOf(environment: Record<string, string> | null): (index: number) => void {
  const observer = environment === null ? null : observerOf(environment);
  const models = Array.from({ length: 8 }, (_, index) => `model-${index}`);
  const request = { method: 'POST', headers: {}, socket: {} } as unknown as IncomingMessage;
  const attempt = { upstream: 'scripted', outcome: 'completed', duration_ms: 900 };
  const route = '/v1/chat/completions';
  const options = { path: route, trustedProxies: null, observer };
  return (index) => {
    const requestId = `0193a0f0-0000-7000-8000-${String(index).padStart(12, '0')}`;
    const model = models[index % models.length] as string;
    const accepted = { type: 'request.accepted', request: requestId, route } as EventOf<'request.accepted'>;
    const settled = {
      type: 'request.settled',
      ...{ request: requestId, account: 'Account1', key: 'Key00001', model, route, status: 200 },
      ...{ end_reason: 'completed', usage_source: 'provider', upstream: 'scripted', attempt_count: 1 },
      ...{ input_tokens: 100, cache_read_tokens: 0, output_tokens: 200, reasoning_tokens: 0 },
      ...{ duration_ms: 1_000 + (index % 7) * 200, first_byte_ms: 300, cost_nanousd: 1_000 },
    } as EventOf<'request.settled'>;
    const diagnostics = new RequestDiagnostics(requestLog, request, { requestId, ...options });
    diagnostics.called(route);
    observer?.recorded(accepted, index);
    diagnostics.attemptContext();
    diagnostics.attemptEnded(attempt);
    diagnostics.settled(settled);
    diagnostics.ended();
    observer?.recorded(settled, index);
  };
}

function observerOf(environment: Record<string, string>): CallObserver {
  const models = Array.from({ length: 8 }, (_, index) => `model-${index}`);
  const upstream = { name: 'scripted', terms: { provider: 'openai', models, base_url: NOWHERE } };
  const upstreams = { table: new ModelTable([], [upstream as never]), get: () => upstream };
  const relay = { upstreams, instance: { appender: { instance: 1 } } } as unknown as Relay;
  return new ServerTelemetry(readConfig(environment), '0', () => relay, log);
}

async function cpuUsPerCall(call: (index: number) => void, secs: number): Promise<number> {
  for (let count = 0; count < WARMUP_CALLS; count++) call(count);
  const began = process.cpuUsage();
  let [calls, us] = [0, 0];
  while (us < secs * 1e6) {
    for (let count = 0; count < CALLS_AT_ONCE; count++) call(calls + count);
    calls += CALLS_AT_ONCE;
    // Whatever the hooks have started runs here.
    await new Promise(setImmediate);
    const { user, system } = process.cpuUsage(began);
    us = user + system;
  }
  return us / calls;
}
