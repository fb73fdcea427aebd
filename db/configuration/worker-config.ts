import { z } from 'zod';
import { StoreError } from '#db/postgres/connect.ts';
import { BearerToken, LogLevel, oneOf, PostgresUrl, wholeNumber } from '#db/configuration/values.ts';
import { readEnvironment } from '#db/environment.ts';

/** A larger number of days is a typing error: a century is forever in practice. */
const DAYS_MAX = 36_500;

/** The worker's environment, one variable a line. Unset and empty are the same. */
const Environment = z.object({
  DAYBOOK_DATA: z.string().default('./data'),
  DATABASE_URL: PostgresUrl.optional(),
  /** The address for servers and workers that don't run as the owner: `npm run migrate` creates its login. */
  SERVICE_DATABASE_URL: PostgresUrl.optional(),
  /** The key that seals the targets of alert destinations; unset: `pepper` in the data directory. */
  DAYBOOK_PEPPER_FILE: z.string().optional(),
  /** How long the projections keep the rows of ended calls; the log keeps all. 0: forever. */
  REQUEST_ROWS_DAYS: wholeNumber(0, DAYS_MAX).default(90),
  /** Where full partitions of the log are archived; unset: they stay in the database. */
  ARCHIVE_DIR: z.string().optional(),
  /** The number of newest full partitions that always stay in the log. */
  ARCHIVE_KEEP_PARTITIONS: wholeNumber(1, 1_000_000).default(4),
  /** Whether the table of an archived partition is dropped; off: it stays until `daybook archive drop`. */
  ARCHIVE_DROP: oneOf(['on', 'off']).default('off'),
  /** The key that signs checkpoints; unset: `signing-key` in the data directory, created on first use. */
  DAYBOOK_SIGNING_KEY_FILE: z.string().optional(),
  /** Where checkpoints are published; unset: the data directory's path with `.published` appended. */
  PUBLISH_DIR: z.string().optional(),
  /** The origin of the dashboard, for links in alerts; unset: alerts have none. */
  PUBLIC_URL: z
    .url({ protocol: /^https?$/, error: 'must be an address such as https://daybook.example.com' })
    .transform((text) => new URL(text).origin)
    .optional(),
  /** The mail server for alerts and statements by email, and their sender. */
  SMTP_URL: z
    .string()
    .regex(/^smtps?:\/\//, 'must start with smtp:// or smtps://')
    .optional(),
  SMTP_FROM: z.string().optional(),
  /** The port of `/metrics`; unset: there are no metrics. A worker beside a server reports by that one's. */
  METRICS_PORT: wholeNumber(0, 65535).optional(),
  METRICS_HOST: z.string().default('127.0.0.1'),
  /** The bearer token that `/metrics` asks for; unset: none. */
  METRICS_TOKEN: BearerToken.optional(),
  LOG_LEVEL: LogLevel.default('info'),
});

/** Each may stand in a file that `<NAME>_FILE` names. */
const SECRETS = ['DATABASE_URL', 'SERVICE_DATABASE_URL', 'SMTP_URL', 'METRICS_TOKEN'];

export type WorkerConfig = z.infer<typeof Environment>;

/**
 * Reads the worker's configuration from the environment.
 * @throws {StoreError} in one line that names the variable and never repeats its value.
 */
export function readWorkerConfig(environment: Record<string, string | undefined>): WorkerConfig {
  const parsed = Environment.safeParse(readEnvironment(environment, SECRETS, (line) => new StoreError(line)));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new StoreError(
    `${String(issue?.path[0] ?? 'configuration')} is not usable: ${issue?.message ?? 'invalid'}.`,
  );
}

/** Every variable with its value, null where it is not set. */
export function describeWorkerConfig(config: WorkerConfig): Record<string, unknown> {
  return Object.fromEntries(
    Object.keys(Environment.shape).map((name) => [name, config[name as keyof WorkerConfig] ?? null]),
  );
}
