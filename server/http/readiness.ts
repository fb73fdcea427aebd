import type { Relay } from '#server/relay/relay.ts';

/** The reply of `/readyz`. */
export type Readiness = { status: 'ready' | 'not_ready' } & Partial<ReadinessDetails>;

/** For the operator only: the position of the log reveals to strangers whether something was recorded. */
type ReadinessDetails = {
  instance: number;
  store: string;
  read_model: { current: boolean; position: number };
  limits: { exchanges: number };
  event_loop_delay_ms: number;
  draining: boolean;
};

/** Whether this process accepts calls. @param isOperator whether it presents READYZ_TOKEN. */
export function readReadiness(
  { phase, readModel, fencing, instance }: Relay,
  isOperator: boolean,
): Readiness {
  const isReady =
    phase === 'serving' &&
    readModel.isCurrent() &&
    !readModel.unapplied.isEverything &&
    fencing.isValid(performance.now()) &&
    instance.appender.mode === 'up';
  const status = isReady ? 'ready' : 'not_ready';
  if (!isOperator) return { status };
  return {
    status,
    instance: instance.appender.instance,
    store: instance.appender.mode,
    read_model: { current: readModel.isCurrent(), position: readModel.position },
    limits: { exchanges: instance.limits.exchanges },
    event_loop_delay_ms: Math.round(fencing.delayMs),
    draining: phase !== 'serving',
  };
}
