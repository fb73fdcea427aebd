/** The configuration of the worker, of which each may be in a file that `<NAME>_FILE` names. */
const CONFIGURATION = [
  'DAYBOOK_DATA',
  'DATABASE_URL',
  'SERVICE_DATABASE_URL',
  'DAYBOOK_PEPPER_FILE',
  'REQUEST_ROWS_DAYS',
  'ARCHIVE_DIR',
  'ARCHIVE_KEEP_PARTITIONS',
  'ARCHIVE_DROP',
  'DAYBOOK_SIGNING_KEY_FILE',
  'PUBLISH_DIR',
  'PUBLIC_URL',
  'SMTP_URL',
  'SMTP_FROM',
  'METRICS_PORT',
  'METRICS_HOST',
  'METRICS_TOKEN',
  'LOG_LEVEL',
];

/** For Node and the system, and PostgreSQL's own variables for passwords and TLS. */
const SYSTEM = new RegExp(
  '^(?:PATH|HOME|USER|LOGNAME|LANG|LC_\\w+|TZ|TMPDIR|TEMP|TMP|SystemRoot|USERPROFILE|APPDATA' +
    '|NODE_\\w+|SSL_CERT_(?:FILE|DIR)|PG\\w+)$',
);

/**
 * The environment of the worker beside a server: the listed variables only, so that it has no other
 * secret. It sends alerts to addresses of others, by the mail server too, and must not have credentials of
 * providers.
 */
export function workerEnvironment(
  environment: Record<string, string | undefined>,
): Record<string, string | undefined> {
  const names = new Set([...CONFIGURATION, ...CONFIGURATION.map((name) => `${name}_FILE`)]);
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => names.has(name) || SYSTEM.test(name)),
  );
}
