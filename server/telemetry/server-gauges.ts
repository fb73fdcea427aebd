import { SERVER_METRICS as M } from '#db/telemetry/catalogue.ts';
import { UPSTREAM_VALUES_MAX } from '#db/telemetry/bounds.ts';
import { gauge, type Sample } from '#db/telemetry/definition.ts';
import { readReadiness } from '#server/http/readiness.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { CircuitStatus } from '#server/upstreams/circuit-breaker.ts';

const CIRCUIT_STATES: readonly CircuitStatus['state'][] = ['healthy', 'degraded', 'open', 'half_open'];

/** What the server process knows of itself at this moment. */
export function readGauges(relay: Relay): Sample[] {
  const { appender, limits } = relay.instance;
  const nowMs = performance.now();
  const upstreams = relay.upstreams.all.slice(0, UPSTREAM_VALUES_MAX);
  return [
    gauge(M.running, relay.running.size),
    gauge(M.buffered, relay.openCalls.bytes),
    gauge(M.ready, readReadiness(relay, false).status === 'ready' ? 1 : 0),
    ...upstreams.flatMap(({ name, circuit }) => {
      const { state } = circuit.status(nowMs);
      return CIRCUIT_STATES.map((each) => gauge(M.circuit, each === state ? 1 : 0, name, each));
    }),
    ...upstreams.map(({ name, pools }) => {
      const open = pools.filter(({ circuit }) => circuit.status(nowMs).state === 'open');
      return gauge(M.openCredentials, open.length, name);
    }),
    ...upstreams.map(({ name, circuit }) => gauge(M.runningAttempts, circuit.running, name)),
    gauge(M.appenderUp, appender.mode === 'up' ? 1 : 0),
    gauge(M.appenderQueue, appender.queued),
    gauge(M.leaseSubjects, limits.subjects),
    gauge(M.readModelPosition, relay.readModel.position),
  ];
}
