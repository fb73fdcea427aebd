import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { z } from 'zod';
import {
  BearerToken,
  LogLevel,
  oneOf,
  positiveNumber,
  PostgresUrl,
  wholeNumber,
} from '#db/configuration/values.ts';
import { readEnvironment } from '#db/environment.ts';
import { UpstreamName } from '#db/events/parts.ts';
import { Networks } from '#db/limits/limits.ts';
import { parseVerifierKey } from '#db/tlog/note.ts';
import { BaseUrl, ModelPattern, UPSTREAM_TERMS } from '#db/events/upstream-events.ts';
import {
  AUTO_INSTANCES_MAX,
  INSTANCES_MAX,
  LAME_DUCK_DEFAULT_MS,
  LAME_DUCK_MAX_MS,
} from '#server/process/bounds.ts';
import {
  BUFFERED_BODIES,
  BUFFERED_BODIES_PER_ACCOUNT,
  BUFFERED_BODIES_PER_KEY,
} from '#server/limits/bounds.ts';
import { Email, Password } from '#server/contract/session.ts';
import { TRACE_ENVIRONMENT, type TraceConfig, traceConfigOf } from '#server/tracing/trace-config.ts';
import { type AddressSet, networksOf } from '#server/access/networks.ts';

/** A configuration that the server refuses to start with; the message names the variable. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

const Milliseconds = wholeNumber(1, 24 * 60 * 60 * 1000);
const HttpUrl = z.url({ protocol: /^https?$/ }).refine((text) => {
  const url = URL.parse(text);
  // An invalid URL is reported by z.url.
  if (url === null) return true;
  return url.username === '' && url.password === '' && url.search === '' && url.hash === '';
}, 'must have no user, query or fragment');

/** One configured endpoint of a provider. `*` in a model pattern matches any run of characters. */
export const UpstreamConfig = UPSTREAM_TERMS.omit({
  base_url: true,
  package: true,
  options: true,
  models: true,
  paused: true,
  network: true,
})
  .extend({
    name: UpstreamName,
    provider: z.enum(['openai', 'anthropic', 'gemini']).default('openai'),
    base_url: BaseUrl,
    api_key: z
      .string()
      .regex(/^[\x21-\x7e]*$/, 'must be printable ASCII without blanks')
      .default(''),
    models: z.array(ModelPattern).min(1),
    /** Absent: private if the base address is a private IP address or a local host name. */
    network: z.enum(['public', 'private']).optional(),
  })
  // Another ending is almost always a mistake, unless the dialect is known.
  .refine(
    ({ provider, dialect, base_url }) =>
      provider !== 'openai' || dialect !== undefined || base_url.endsWith('/v1'),
    { path: ['base_url'], message: 'must end in /v1' },
  );
export type UpstreamConfig = z.infer<typeof UpstreamConfig>;

const Upstreams = z
  .string()
  .transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue({
        code: 'custom',
        message: 'must be a JSON array of {name, base_url, api_key, models}',
      });
      return z.NEVER;
    }
  })
  .pipe(z.array(UpstreamConfig))
  .refine((list) => new Set(list.map(({ name }) => name)).size === list.length, 'names must differ');

/** Verifier keys as witnesses print them, separated by blanks or commas. */
const Witnesses = z.string().transform((text, context) => {
  const lines = text.split(/[\s,]+/).filter((line) => line !== '');
  for (const line of lines) {
    try {
      if (parseVerifierKey(line).kind === 'cosignature') continue;
    } catch {
      // Not a verifier key; reported below.
    }
    context.addIssue({
      code: 'custom',
      message: 'must be verifier keys of witnesses, as "daybook witness" prints its own',
    });
    return z.NEVER;
  }
  return lines;
});

/** How many server processes; `auto` is one for each core that this process may use. */
const Instances = z.preprocess(
  (text) => (text === 'auto' ? Math.min(availableParallelism(), AUTO_INSTANCES_MAX) : text),
  wholeNumber(1, INSTANCES_MAX, 'auto'),
);

/** The environment, one variable a line. Unset and empty are the same. */
const Environment = z.object({
  PORT: wholeNumber(0, 65535).default(4000),
  HOST: z.string().default('127.0.0.1'),
  DAYBOOK_DATA: z.string().default('./data'),
  DATABASE_URL: PostgresUrl.optional(),
  /** The secret that key digests are computed with; hosts on the same DATABASE_URL share it. */
  DAYBOOK_PEPPER_FILE: z.string().optional(),
  /** The key that upstream credentials are encrypted with; hosts on the same DATABASE_URL share it. */
  DAYBOOK_MASTER_KEY_FILE: z.string().optional(),
  /** The key that signs checkpoints, for the worker beside the server and for commands. */
  DAYBOOK_SIGNING_KEY_FILE: z.string().optional(),
  /** Where checkpoints are published: a server doesn't start on a log that contradicts them. */
  PUBLISH_DIR: z.string().optional(),
  /** Where the worker archives full partitions: comparisons of bills read archived calls there. */
  ARCHIVE_DIR: z.string().optional(),
  /** The verifier keys of witnesses whose cosignatures are accepted. */
  WITNESSES: Witnesses.default([]),
  /** Server processes on the same port. */
  DAYBOOK_INSTANCES: Instances.default(1),
  /** After SIGTERM: how long calls are accepted although `/readyz` replies 503. */
  LAME_DUCK_MS: wholeNumber(0, LAME_DUCK_MAX_MS).default(LAME_DUCK_DEFAULT_MS),
  /** With it as bearer token `/readyz` reports details of the process. */
  READYZ_TOKEN: BearerToken.optional(),
  /** The port of `/metrics`; unset: there are no metrics. */
  METRICS_PORT: wholeNumber(0, 65535).optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  /** The bearer token that `/metrics` asks for; unset: none. */
  METRICS_TOKEN: BearerToken.optional(),
  /** Whether a worker is started beside the server; `off` where one runs elsewhere. */
  DAYBOOK_WORKER: oneOf(['on', 'off']).default('on'),
  DAYBOOK_UPSTREAMS: Upstreams.optional(),
  OPENAI_API_KEY: z
    .string()
    .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without blanks')
    .optional(),
  OPENAI_BASE_URL: BaseUrl.refine((text) => text.endsWith('/v1'), 'must end in /v1').optional(),
  UPSTREAM_CONNECT_TIMEOUT_MS: Milliseconds.default(5_000),
  UPSTREAM_FIRST_BYTE_TIMEOUT_MS: Milliseconds.default(120_000),
  UPSTREAM_IDLE_TIMEOUT_MS: Milliseconds.default(60_000),
  UPSTREAM_TOTAL_TIMEOUT_MS: Milliseconds.default(30 * 60_000),
  /** Whether Gemini's clients may send their key in the address (`?key=`), which proxies write into logs. */
  KEY_IN_QUERY: oneOf(['reject', 'accept']).default('reject'),
  MAX_BODY_MB: positiveNumber(1024).default(32),
  /** Memory for bodies and buffered replies, of a server process, of an account and of a key. */
  MAX_BUFFERED_MB: positiveNumber().optional(),
  MAX_BUFFERED_MB_PER_ACCOUNT: positiveNumber().optional(),
  MAX_BUFFERED_MB_PER_KEY: positiveNumber().optional(),
  /** Addresses and networks, separated by commas. */
  TRUSTED_PROXIES: z
    .string()
    .transform((text) => text.split(',').map((each) => each.trim()))
    .refine(
      (list) => Networks.safeParse(list).success,
      'must be addresses and networks such as 10.0.0.0/8, separated by commas',
    )
    .optional(),
  TLS_CERT: z.string().optional(),
  TLS_KEY: z.string().optional(),
  /** The origin of the dashboard and the API; links in emails begin with it. */
  PUBLIC_URL: HttpUrl.refine((text) => URL.parse(text)?.pathname === '/', 'must have no path')
    .transform((text) => new URL(text).origin)
    .optional(),
  SMTP_URL: z
    .string()
    .regex(/^smtps?:\/\//, 'must start with smtp:// or smtps://')
    .optional(),
  SMTP_FROM: z.string().optional(),
  /** The first administrator, for unattended setups without the setup link. */
  ADMIN_EMAIL: Email.optional(),
  ADMIN_PASSWORD: Password.optional(),
  ACCOUNTING: oneOf(['strict', 'overlapped']).default('strict'),
  LOG_LEVEL: LogLevel.default('info'),
  ...TRACE_ENVIRONMENT.shape,
});

type BufferSettings = Record<
  'MAX_BUFFERED_MB' | 'MAX_BUFFERED_MB_PER_ACCOUNT' | 'MAX_BUFFERED_MB_PER_KEY',
  number
>;

export type Config = z.infer<typeof Environment> &
  BufferSettings & {
    /** Where traces go; null: they are off. */
    traces: TraceConfig | null;
    upstreams: UpstreamConfig[];
    /** Proxies whose X-Forwarded-For is trusted; null: none. */
    trustedProxies: AddressSet | null;
    tls: { cert: Buffer; key: Buffer } | null;
  };

/** Never shown; each can also be read from the file that `<NAME>_FILE` names. */
const SECRETS = new Set([
  'DATABASE_URL',
  'DAYBOOK_UPSTREAMS',
  'OPENAI_API_KEY',
  'SMTP_URL',
  'READYZ_TOKEN',
  'METRICS_TOKEN',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
  'ADMIN_PASSWORD',
]);

/** Variables that require others. */
const NEEDS = {
  SMTP_URL: ['SMTP_FROM', 'PUBLIC_URL'],
  ADMIN_EMAIL: ['ADMIN_PASSWORD'],
  ADMIN_PASSWORD: ['ADMIN_EMAIL'],
} as const;

/**
 * Reads the configuration from the environment.
 * @throws {ConfigError} in one line that names the variable and never repeats a secret's value.
 */
export function readConfig(environment: Record<string, string | undefined>): Config {
  const parsed = Environment.safeParse(
    readEnvironment(environment, SECRETS, (line) => new ConfigError(line)),
  );
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const [name = 'configuration', ...path] = issue?.path.map(String) ?? [];
    const place = path.length > 0 ? ` (at ${path.join('.')})` : '';
    throw new ConfigError(`${name} is not usable: ${issue?.message ?? 'invalid'}${place}.`);
  }
  const config = parsed.data;
  for (const [name, needed] of Object.entries(NEEDS)) {
    const missing =
      config[name as keyof typeof NEEDS] === undefined
        ? undefined
        : needed.find((other) => config[other] === undefined);
    if (missing !== undefined) throw new ConfigError(`${missing} is missing: ${name} is set, and needs it.`);
  }
  const upstreams = [...(config.DAYBOOK_UPSTREAMS ?? [])];
  if (config.OPENAI_API_KEY !== undefined || config.OPENAI_BASE_URL !== undefined) {
    if (upstreams.some(({ name }) => name === 'openai')) {
      throw new ConfigError(
        'OPENAI_API_KEY adds an upstream named "openai", which DAYBOOK_UPSTREAMS has too. Remove one.',
      );
    }
    upstreams.push({
      name: 'openai',
      base_url: config.OPENAI_BASE_URL ?? 'https://api.openai.com/v1',
      api_key: config.OPENAI_API_KEY ?? '',
      models: ['*'],
      provider: 'openai',
      dialect: 'openai',
      on_client_disconnect: 'cancel',
      retries: 0,
    });
  }
  const trustedProxies = config.TRUSTED_PROXIES === undefined ? null : networksOf(config.TRUSTED_PROXIES);
  const tls = readTls(config.TLS_CERT, config.TLS_KEY);
  const traces = traceConfigOf(config);
  return { ...config, ...bufferLimitsOf(config), upstreams, trustedProxies, tls, traces };
}

/** @throws {ConfigError} where one limit is below another that it must not be below. */
function bufferLimitsOf(config: z.infer<typeof Environment>): BufferSettings {
  const { MAX_BODY_MB: body } = config;
  const limits = {
    MAX_BUFFERED_MB_PER_KEY: config.MAX_BUFFERED_MB_PER_KEY ?? body * BUFFERED_BODIES_PER_KEY,
    MAX_BUFFERED_MB_PER_ACCOUNT: config.MAX_BUFFERED_MB_PER_ACCOUNT ?? body * BUFFERED_BODIES_PER_ACCOUNT,
    MAX_BUFFERED_MB: config.MAX_BUFFERED_MB ?? body * BUFFERED_BODIES,
  };
  let least: [string, number] = ['MAX_BODY_MB', body];
  for (const [name, value] of Object.entries(limits)) {
    if (value < least[1])
      throw new ConfigError(
        `${name} is not usable: ${value} is less than ${least[0]}, which is ${least[1]}.`,
      );
    least = [name, value];
  }
  return limits;
}

function readTls(certFile: string | undefined, keyFile: string | undefined): Config['tls'] {
  if (certFile === undefined && keyFile === undefined) return null;
  if (certFile === undefined)
    throw new ConfigError('TLS_CERT is missing: TLS_KEY is set, and HTTPS needs both.');
  if (keyFile === undefined)
    throw new ConfigError('TLS_KEY is missing: TLS_CERT is set, and HTTPS needs both.');
  const read = (variable: string, file: string): Buffer => {
    try {
      return readFileSync(file);
    } catch (error) {
      throw new ConfigError(
        `${variable} is not usable: ${file} can't be read (${(error as NodeJS.ErrnoException).code}).`,
      );
    }
  };
  return { cert: read('TLS_CERT', certFile), key: read('TLS_KEY', keyFile) };
}

/** The configuration as `daybook doctor` prints it: every variable, secrets masked. */
export function describeConfig(config: Config): Record<string, unknown> {
  const mask = (text: string): string => (text === '' ? '(empty)' : `(set, ${text.length} characters)`);
  const plain = Object.keys(Environment.shape).map((name) => {
    const value = config[name as keyof typeof config];
    if (name === 'DAYBOOK_UPSTREAMS')
      return [name, config.upstreams.map((each) => ({ ...each, api_key: mask(each.api_key) }))];
    return [name, SECRETS.has(name) && typeof value === 'string' ? mask(value) : (value ?? null)];
  });
  return Object.fromEntries(plain) as Record<string, unknown>;
}
