import { ATTRIBUTE_CHARACTERS_MAX } from '#server/tracing/bounds.ts';

/** Spans as OTLP's JSON encoding has them. Pure. */

export type AttributeValue = string | number | boolean | readonly string[];
export type Attributes = Record<string, AttributeValue | null | undefined>;

export type Span = {
  traceId: string;
  spanId: string;
  parentId: string | null;
  tracestate: string | null;
  name: string;
  kind: 'server' | 'client';
  /** Milliseconds since 1970, with fractions. */
  startMs: number;
  endMs: number;
  attributes: Attributes;
  isError: boolean;
};

const KINDS = { server: 2, client: 3 } as const;
const STATUS_ERROR = 2;
const SAMPLED_FLAG = 1;
const SCOPE = 'daybook';

/** The body of an export. */
export function exportBody(
  resource: Attributes,
  version: string,
  spans: readonly Span[],
): { resourceSpans: object[] } {
  return {
    resourceSpans: [
      {
        resource: { attributes: encodeAttributes(resource) },
        scopeSpans: [{ scope: { name: SCOPE, version }, spans: spans.map(encodeSpan) }],
      },
    ],
  };
}

function encodeSpan(span: Span): object {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    ...(span.parentId === null ? {} : { parentSpanId: span.parentId }),
    ...(span.tracestate === null ? {} : { traceState: span.tracestate }),
    flags: SAMPLED_FLAG,
    name: span.name,
    kind: KINDS[span.kind],
    startTimeUnixNano: nanoseconds(span.startMs),
    endTimeUnixNano: nanoseconds(Math.max(span.startMs, span.endMs)),
    attributes: encodeAttributes(span.attributes),
    status: span.isError ? { code: STATUS_ERROR } : {},
  };
}

function encodeAttributes(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : [{ key, value: encodeValue(value) }],
  );
}

function encodeValue(value: AttributeValue): object {
  if (typeof value === 'string') return { stringValue: bounded(value) };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number')
    return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  return { arrayValue: { values: value.map((each) => ({ stringValue: bounded(each) })) } };
}

/** Without half a character at its end, which is no valid text. */
const bounded = (text: string): string => text.slice(0, ATTRIBUTE_CHARACTERS_MAX).toWellFormed();

/** Microseconds are as exact as a double of milliseconds since 1970 is. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1000)}000`;
