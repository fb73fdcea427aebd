import type { SamplerName } from '#server/tracing/trace-config.ts';

/** W3C Trace Context, and the decision whether a trace is sampled. Pure but for random ids. */

export type ParentContext = { traceId: string; spanId: string; isSampled: boolean };

/** @param traceparent one that is valid; null: the trace begins here. */
export function parentOf(traceparent: string | null): ParentContext | null {
  if (traceparent === null) return null;
  const [, traceId = '', spanId = '', flags = '00'] = traceparent.split('-');
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Whether a call is traced. */
export function isSampled(sampler: SamplerName, ratio: number, parent: ParentContext | null): boolean {
  switch (sampler) {
    case 'always_on':
      return true;
    case 'always_off':
      return false;
    case 'traceidratio':
      return parent === null ? Math.random() < ratio : isBelow(parent.traceId, ratio);
    case 'parentbased_always_on':
      return parent?.isSampled ?? true;
    case 'parentbased_always_off':
      return parent?.isSampled ?? false;
    case 'parentbased_traceidratio':
      return parent?.isSampled ?? Math.random() < ratio;
  }
}

/** Each service decides the same for one trace. */
const isBelow = (traceId: string, ratio: number): boolean =>
  Number.parseInt(traceId.slice(-13), 16) < ratio * 16 ** 13;

const hex = (value: number): string => value.toString(16).padStart(8, '0');
const word = (): number => Math.floor(Math.random() * 0x1_0000_0000);

/** Ids only have to differ, and nothing depends on their secrecy. */
export const newSpanId = (): string => hex(word() || 1) + hex(word());
export const newTraceId = (): string => newSpanId() + newSpanId();
