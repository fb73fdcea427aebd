/**
 * The code of a failure that Kafka's client reports, as nested errors. Pure. Messages of the client contain
 * addresses, so only codes are taken from them: the broker's own, such as `unknown_topic_or_partition`, or
 * that of the connection, such as `ECONNREFUSED`.
 */

/** The properties read from errors of the client, of Node and of this program. */
type Nested = Error & { code?: unknown; apiId?: unknown; errors?: unknown };

/** As the protocol and Node spell codes. */
const CODE = /^[A-Za-z0-9_]{1,64}$/;
const CLIENT_CODE = /^PLT_KFK_/;
/** The client attempts a delivery some times, over some brokers, and nests the error of each. */
const ERRORS_MAX = 200;

/**
 * The first reason found of these: TLS is missing; the credentials were refused; an error of the protocol; an
 * error of the connection; the client's kind of error.
 */
export function kafkaFault(error: unknown): string {
  const errors = nestedErrors(error);
  const codes = errors.map(({ code }) => code).filter((code) => typeof code === 'string');
  if (errors.some(({ message }) => message === 'Broker requires TLS.')) return 'tls_required';
  if (codes.includes('PLT_KFK_AUTHENTICATION')) return 'sasl_authentication_failed';
  const ids = errors.map(({ apiId }) => apiId).filter((id) => typeof id === 'string');
  const protocol = ids.find((id) => CODE.test(id));
  if (protocol !== undefined) return protocol.toLowerCase();
  const connection = codes.find((code) => CODE.test(code) && !CLIENT_CODE.test(code));
  if (connection !== undefined) return connection;
  // The client finds it in the metadata, where a topic that is missing has no error of its own.
  if (errors.some(({ message }) => message.startsWith('Unknown topic '))) return 'unknown_topic_or_partition';
  if (errors.some(({ message }) => message.includes('timed out'))) return 'timed_out';
  return codes.includes('PLT_KFK_NETWORK') ? 'connection_closed' : 'failed';
}

/** The error and those within it, outermost first. */
function nestedErrors(error: unknown): Nested[] {
  const found: Nested[] = [];
  const waiting = [error];
  while (waiting.length > 0 && found.length < ERRORS_MAX) {
    const next = waiting.shift();
    if (!(next instanceof Error)) continue;
    const nested: Nested = next;
    found.push(nested);
    waiting.push(nested.cause, ...(Array.isArray(nested.errors) ? (nested.errors as unknown[]) : []));
  }
  return found;
}
