import { z } from 'zod';
import { oneOf, wholeNumber } from '#db/configuration/values.ts';

/** The environment variables of OpenTelemetry that are read, with their standard names and defaults. */

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

const HttpUrl = z.url({ protocol: /^https?$/, error: 'must be an address such as http://127.0.0.1:4318' });

export const TRACE_ENVIRONMENT = z.object({
  OTEL_SDK_DISABLED: oneOf(['true', 'false']).default('false'),
  OTEL_TRACES_EXPORTER: oneOf(['otlp', 'none']).optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: HttpUrl.optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: HttpUrl.optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_PROTOCOL: oneOf(['http/json']).default('http/json'),
  OTEL_EXPORTER_OTLP_COMPRESSION: oneOf(['none', 'gzip']).default('none'),
  OTEL_EXPORTER_OTLP_TIMEOUT: wholeNumber(1, 600_000).default(10_000),
  OTEL_SERVICE_NAME: z.string().max(255).default('daybook'),
  OTEL_RESOURCE_ATTRIBUTES: z.string().optional(),
  OTEL_TRACES_SAMPLER: oneOf(SAMPLERS).default('parentbased_always_on'),
  OTEL_TRACES_SAMPLER_ARG: z.coerce
    .number('must be a number from 0 to 1')
    .min(0, 'must be a number from 0 to 1')
    .max(1, 'must be a number from 0 to 1')
    .default(1),
  OTEL_BSP_SCHEDULE_DELAY: wholeNumber(1, 600_000).default(5_000),
  OTEL_BSP_MAX_QUEUE_SIZE: wholeNumber(1, 100_000).default(2_048),
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: wholeNumber(1, 10_000).default(512),
});

export type TraceConfig = {
  endpoint: string;
  headers: Record<string, string>;
  isCompressed: boolean;
  timeoutMs: number;
  resource: Record<string, string>;
  sampler: SamplerName;
  /** The part of the traces that begin here, or of all, that is sampled. */
  ratio: number;
  scheduleMs: number;
  queueMax: number;
  batchMax: number;
};

const LOCAL = 'http://localhost:4318';

/** Where traces go; null: they are off, as long as no exporter and no endpoint is set. */
export function traceConfigOf(set: z.infer<typeof TRACE_ENVIRONMENT>): TraceConfig | null {
  const own = set.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT;
  const base = set.OTEL_EXPORTER_OTLP_ENDPOINT;
  const isOn = set.OTEL_TRACES_EXPORTER === 'otlp' || own !== undefined || base !== undefined;
  if (!isOn || set.OTEL_TRACES_EXPORTER === 'none' || set.OTEL_SDK_DISABLED === 'true') return null;
  return {
    endpoint: own ?? `${(base ?? LOCAL).replace(/\/+$/, '')}/v1/traces`,
    headers: {
      ...listOf(set.OTEL_EXPORTER_OTLP_HEADERS),
      ...listOf(set.OTEL_EXPORTER_OTLP_TRACES_HEADERS),
    },
    isCompressed: set.OTEL_EXPORTER_OTLP_COMPRESSION === 'gzip',
    timeoutMs: set.OTEL_EXPORTER_OTLP_TIMEOUT,
    resource: { ...listOf(set.OTEL_RESOURCE_ATTRIBUTES), 'service.name': set.OTEL_SERVICE_NAME },
    sampler: set.OTEL_TRACES_SAMPLER,
    ratio: set.OTEL_TRACES_SAMPLER_ARG,
    scheduleMs: set.OTEL_BSP_SCHEDULE_DELAY,
    queueMax: set.OTEL_BSP_MAX_QUEUE_SIZE,
    batchMax: Math.min(set.OTEL_BSP_MAX_EXPORT_BATCH_SIZE, set.OTEL_BSP_MAX_QUEUE_SIZE),
  };
}

/** `name=value,…`, percent-encoded, as in W3C Baggage. Entries that are not so are ignored. */
function listOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? '').split(',').flatMap((entry): [string, string][] => {
    const at = entry.indexOf('=');
    const name = entry.slice(0, Math.max(0, at)).trim();
    if (name === '') return [];
    try {
      return [[name, decodeURIComponent(entry.slice(at + 1).trim())]];
    } catch {
      return [];
    }
  });
  return Object.fromEntries(pairs);
}
