/* oxlint-disable no-underscore-dangle -- names of pg's own */
import { Client, type ClientConfig, Query, type Submittable } from 'pg';

type Callback = (error: Error | null, result?: unknown) => void;

/** What pg has beside its types; test/layout/vendor-internals.test.ts fails when that changes. */
type Internals = {
  connectionParameters: { query_timeout?: number | boolean };
  _queryQueue: unknown[];
  _pulseQueryQueue(): void;
};
type Statement = Query & { callback: Callback };
type StatementClass = new (config: unknown, values: unknown, callback: Callback) => Statement;
const StatementOf = Query as unknown as StatementClass;

class Session extends Client {
  readonly #timeoutMs: number;

  constructor(config?: string | ClientConfig) {
    super(config);
    const { connectionParameters } = internalsOf(this);
    this.#timeoutMs = Number(connectionParameters.query_timeout ?? 0);
    connectionParameters.query_timeout = 0;
  }

  /** How long a statement waits for its result, in milliseconds; 0: without end. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  /** Has the overloads of pg's own. */
  override query(config: unknown, values?: unknown, callback?: unknown): never {
    return this.#query(config, values, callback) as never;
  }

  #query(config: unknown, values: unknown, callback: unknown): unknown {
    if (isSubmittable(config)) return super.query(Object.assign(config, { query_timeout: this.#timeoutMs }));
    if (typeof values === 'function') return this.#send(config, undefined, values as Callback);
    if (typeof callback === 'function') return this.#send(config, values, callback as Callback);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#send(config, values, (error, result) => (error ? reject(error) : resolve(result)));
    return promise.catch(rethrow);
  }

  #send(config: unknown, values: unknown, callback: Callback): void {
    let timer: NodeJS.Timeout | undefined;
    const statement = new StatementOf(config, values, (error, result) => {
      clearTimeout(timer);
      callback(error, result);
    });
    if (this.#timeoutMs > 0) timer = setTimeout(expire, this.#timeoutMs, this, statement);
    super.query(statement);
  }
}

/**
 * A session with PostgreSQL whose statements leave nothing in V8's old generation.
 *
 * For each statement, pg assigns function literals to a property (`query.callback = …`). V8 takes that for
 * the definition of a method and allocates the function in the old generation. There it keeps alive all that
 * it references, ended calls included, until the next full collection: at 1,000 calls a second each minor
 * collection copied five megabytes and stopped the process for 13 ms. So pg gets the callback of a statement
 * as an argument, and the time-out of a statement is kept here.
 */
export const StoreClient = Session as unknown as new (
  config?: string | ClientConfig,
) => Client & Pick<Session, 'timeoutMs'>;

function expire(client: Session, statement: Statement): void {
  const { callback } = statement;
  const internals = internalsOf(client);
  statement.callback = ignore;
  const index = internals._queryQueue.indexOf(statement);
  if (index !== -1) internals._queryQueue.splice(index, 1);
  callback(new Error('Query read timeout'));
  internals._pulseQueryQueue();
}

function ignore(): void {}

/** With a stack that leads to the caller instead of the socket. */
function rethrow(error: Error): never {
  Error.captureStackTrace(error);
  throw error;
}

const isSubmittable = (config: unknown): config is Submittable =>
  typeof (config as Submittable | null)?.submit === 'function';

const internalsOf = (client: Client): Internals => client as unknown as Internals;
