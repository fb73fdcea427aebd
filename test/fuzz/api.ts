import { setTimeout as wait } from 'node:timers/promises';
import { MANAGEMENT_SCOPES } from '#db/events/management-scopes.ts';
import type { Placed } from '#db/events/events.ts';
import { readPage } from '#db/log/read.ts';
import type { CreatedManagementKey } from '#server/contract/keys.ts';
import { API_ERRORS } from '#server/errors/api-errors.ts';
import type { OpenApi } from '#server/openapi/document.ts';
import type { Random } from '../chaos/random.ts';
import { callDemo, PASSWORD, type PeopledRelay, startPeopledRelay } from '../support/dashboard.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import { type ApiOperation, ApiValidators, operationsOf } from './api-document.ts';
import { type ApiRequest, ApiRequests } from './api-requests.ts';
import { chance } from './pieces.ts';
import { changedTables, openTableStates } from './table-states.ts';
import { VIOLATIONS_MAX } from './target.ts';

/**
 * A client that knows only the OpenAPI document calls every operation of the management API with valid and
 * invalid requests. No request is a fault of the server, each reply has its schema, no request outside its
 * schema succeeds, and each change of state is an event of its caller.
 */

export type ApiReport = {
  requests: number;
  operations: number;
  /** Operations that replied with success at least once. */
  succeeded: number;
  neverSucceeded: string[];
  statuses: Record<string, number>;
  events: number;
  violations: string[];
};

/** These end the session of the caller, who is another member. */
const ENDS_SESSION: ReadonlySet<string> = new Set([
  'delete /api/v1/session',
  'delete /api/v1/sessions',
  'delete /api/v1/sessions/{session}',
  'post /api/v1/password',
]);
/** Until these changes are events, too: operations and the tables that they change. */
const KNOWN_WITHOUT_EVENT: readonly (readonly [path: RegExp, tables: readonly string[]])[] = [
  [/\/destinations/, ['alert_destination']],
  [/\/statement-emails/, ['statement_schedule', 'statement_recipient', 'statement_email']],
  [/\/sinks\/\{sink\}\/test/, ['sink']],
];
/** A server is replaced by a new one after so long, so that its tables stay small. */
const ROUND_MS = 10 * 60_000;
const PROJECT_EVERY = 200;
const BODY_SHOWN = 300;
/** After a failed change: the timeouts of its statements. */
const SETTLED_WITHIN_MS = 5_000;

/** `npm run fuzz -- api`. */
export async function run(random: Random, { ms }: { ms: number }): Promise<ApiReport> {
  const endMs = performance.now() + ms;
  let report = emptyReport();
  while (performance.now() < endMs && report.violations.length < VIOLATIONS_MAX) {
    const roundEndMs = Math.min(endMs, performance.now() + ROUND_MS);
    report = added(report, await fuzzApi(random, 'embedded', () => performance.now() < roundEndMs));
  }
  return report;
}

const emptyReport = (): ApiReport => ({
  requests: 0,
  operations: 0,
  succeeded: 0,
  neverSucceeded: [],
  statuses: {},
  events: 0,
  violations: [],
});

function added(one: ApiReport, other: ApiReport): ApiReport {
  const statuses = { ...one.statuses };
  for (const [status, count] of Object.entries(other.statuses))
    statuses[status] = (statuses[status] ?? 0) + count;
  const neverSucceeded =
    one.requests === 0
      ? other.neverSucceeded
      : one.neverSucceeded.filter((name) => other.neverSucceeded.includes(name));
  return {
    requests: one.requests + other.requests,
    operations: other.operations,
    succeeded: other.operations - neverSucceeded.length,
    neverSucceeded,
    statuses,
    events: one.events + other.events,
    violations: [...one.violations, ...other.violations],
  };
}

/**
 * Calls a new relay until `goesOn` says no.
 * @param postgres `database`: one of the test run's.
 */
export async function fuzzApi(
  random: Random,
  postgres: 'embedded' | 'database',
  goesOn: (requests: number, operations: number) => boolean,
): Promise<ApiReport> {
  await using upstream = await startUpstream();
  const people = await startPeopledRelay({ postgres });
  await using relay = people.relay;
  const origin = `http://127.0.0.1:${relay.port}`;
  const document = (await (await fetch(`${origin}/api/v1/openapi.json`)).json()) as OpenApi;
  const fuzz = await ApiFuzz.open(people, document, random, {
    base_url: upstream.baseUrl,
    url: `${origin}/healthz`,
    network: 'private',
    // Nothing signs checkpoints that a receipt could wait for.
    wait: 0,
  });
  try {
    while (
      goesOn(fuzz.report.requests, fuzz.report.operations) &&
      fuzz.report.violations.length < VIOLATIONS_MAX
    ) {
      if (fuzz.report.requests % PROJECT_EVERY === 0) {
        await callDemo(relay, relay.key);
        await projectAll(relay.store);
      }
      await fuzz.step();
    }
  } finally {
    await fuzz.close();
  }
  return fuzz.report;
}

type Reply = { status: number; mediaType: string; text: string; value: unknown };

class ApiFuzz {
  readonly report: ApiReport;
  readonly #people: PeopledRelay;
  readonly #random: Random;
  readonly #operations: ApiOperation[];
  #round: ApiOperation[] = [];
  readonly #validators: ApiValidators;
  readonly #requests: ApiRequests;
  readonly #succeeded = new Set<string>();
  readonly #key: CreatedManagementKey;
  readonly #client: Awaited<ReturnType<typeof connectAs>>;
  readonly #tables: Awaited<ReturnType<typeof openTableStates>>;
  #states: ReadonlyMap<string, string>;
  #head: number;

  static async open(
    people: PeopledRelay,
    document: OpenApi,
    random: Random,
    fixed: Readonly<Record<string, unknown>>,
  ): Promise<ApiFuzz> {
    const { body: key } = await people.administrator.post<CreatedManagementKey>('/api/v1/management-keys', {
      name: 'fuzz',
      scopes: MANAGEMENT_SCOPES,
      account: null,
    });
    const client = await connectAs(people.relay.store, 'owner');
    const tables = await openTableStates(client);
    const head = (await people.relay.readLog()).at(-1)?.position ?? 0;
    return new ApiFuzz({
      people,
      document,
      random,
      fixed,
      key,
      client,
      tables,
      head,
      states: await tables.read(),
    });
  }

  constructor(parts: {
    people: PeopledRelay;
    document: OpenApi;
    random: Random;
    fixed: Readonly<Record<string, unknown>>;
    key: CreatedManagementKey;
    client: Awaited<ReturnType<typeof connectAs>>;
    tables: Awaited<ReturnType<typeof openTableStates>>;
    states: ReadonlyMap<string, string>;
    head: number;
  }) {
    const { people, document, random, fixed, key, client, tables, states, head } = parts;
    this.#people = people;
    this.#random = random;
    this.#operations = operationsOf(document);
    this.#validators = new ApiValidators(document);
    this.#requests = new ApiRequests(random, document.components.schemas, fixed);
    this.#key = key;
    this.#client = client;
    this.#tables = tables;
    this.#states = states;
    this.#head = head;
    this.report = { ...emptyReport(), operations: this.#operations.length };
    this.#requests.remember('account', people.relay.account);
    for (const [subject, ...names] of [
      ['account', people.relay.account],
      ['model', 'daybook-demo'],
      ['password', PASSWORD],
      ['address', String(fixed['url']), 'alerts@example.com'],
    ])
      for (const name of names) this.#requests.remember(subject as string, name);
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  /** One request, and what it has done. */
  async step(): Promise<void> {
    const { report } = this;
    const operation = this.#next();
    const request = this.#requests.next(operation);
    // A repeat has the same caller: an idempotency key is its own.
    const caller = this.#headers(operation);
    const reply = await this.#send(operation, request, caller);
    report.requests++;
    report.statuses[reply.status] = (report.statuses[reply.status] ?? 0) + 1;
    const faults = this.#faultsOfReply(operation, request, reply);
    faults.push(...(await this.#faultsOfState(operation, reply)));
    if (reply.status < 300 && 'if-match' in request.conditions) faults.push('a stale ETag succeeds');
    if (hasEvent(reply) && 'idempotency-key' in request.conditions) {
      const repeat = await this.#send(operation, request, caller);
      if (repeat.status < 400 || repeat.status >= 500) faults.push(`its repeat is ${repeat.status}`);
      faults.push(...(await this.#faultsOfState(operation, repeat)));
    }
    for (const fault of faults)
      report.violations.push(
        `${operation.name}: ${fault}: ${request.target} ${shown(request.body)} -> ` +
          `${reply.status} ${reply.text.slice(0, BODY_SHOWN)}`,
      );
    if (reply.status >= 300) return;
    this.#succeeded.add(operation.name);
    report.succeeded = this.#succeeded.size;
    report.neverSucceeded = this.#operations
      .map(({ name }) => name)
      .filter((name) => !this.#succeeded.has(name));
    this.#requests.collect(operation.path, reply.value);
    // The callers keep what they need.
    this.#requests.forget('member', this.#people.administrator.me.member.id);
    this.#requests.forget('management_key', this.#key.id);
  }

  /** Every operation in turn, each round in another order. */
  #next(): ApiOperation {
    if (this.#round.length === 0) this.#round = shuffled(this.#random, this.#operations);
    return this.#round.pop() as ApiOperation;
  }

  #headers(operation: ApiOperation): Record<string, string> {
    const { relay, administrator, ben } = this.#people;
    const session = {
      origin: `http://127.0.0.1:${relay.port}`,
      cookie: ENDS_SESSION.has(operation.name) ? ben.cookie : administrator.cookie,
    };
    switch (operation.caller) {
      case 'management_key':
        return chance(this.#random, 8) ? session : { authorization: `Bearer ${this.#key.secret}` };
      case 'session':
        return session;
      case 'public':
        return { origin: session.origin };
    }
  }

  async #send(
    operation: ApiOperation,
    { target, body, contentType, conditions }: ApiRequest,
    caller: Record<string, string>,
  ): Promise<Reply> {
    const response = await fetch(`http://127.0.0.1:${this.#people.relay.port}${target}`, {
      method: operation.method.toUpperCase(),
      headers: {
        ...caller,
        ...conditions,
        ...(body === null || contentType === '' ? {} : { 'content-type': contentType }),
      },
      ...(body === null || operation.method === 'get' ? {} : { body: new Uint8Array(body) }),
    });
    const text = await response.text();
    const [mediaType = ''] = (response.headers.get('content-type') ?? '').split(';');
    const value: unknown = mediaType === 'application/json' ? JSON.parse(text) : null;
    return { status: response.status, mediaType, text, value };
  }

  #faultsOfReply(
    operation: ApiOperation,
    request: ApiRequest,
    { status, mediaType, value }: Reply,
  ): string[] {
    const faults: string[] = [];
    const code = (value as { error?: { code: string } } | null)?.error?.code ?? '';
    if (status >= 500 && (code === 'internal_error' || !(code in API_ERRORS)))
      faults.push('the server failed');
    const fault = this.#validators.faultOfReply(operation, status, mediaType, value);
    if (fault !== null) faults.push(`the reply is outside its schema: ${fault}`);
    const isAllowed =
      operation.body === undefined ||
      (request.value !== undefined && this.#validators.allowsBody(operation, request.value));
    if (status < 300 && !isAllowed) faults.push('a body outside its schema succeeds');
    return faults;
  }

  async #skipState(): Promise<string[]> {
    await wait(SETTLED_WITHIN_MS);
    this.#head = (await this.#people.relay.readLog()).at(-1)?.position ?? this.#head;
    this.#states = await this.#tables.read();
    return [];
  }

  /** Changes of tables without an event of the caller, and events that the reply doesn't name. */
  async #faultsOfState(operation: ApiOperation, { status, value }: Reply): Promise<string[]> {
    const events: Placed[] = [];
    for (;;) {
      const page = await readPage(this.#client, this.#head);
      if (page.length === 0) break;
      events.push(...page);
      this.#head = page.at(-1)?.position ?? this.#head;
    }
    // The database was too slow, so that the change may have been made, or still be made.
    if (status === 503) return this.#skipState();
    const changes = events.filter(({ event }) => 'actor' in event && event.type !== 'log.read');
    this.report.events += changes.length;
    const before = this.#states;
    this.#states = await this.#tables.read();
    const known = KNOWN_WITHOUT_EVENT.find(([path]) => path.test(operation.path))?.[1] ?? [];
    const tables = changedTables(before, this.#states).filter((name) => !known.includes(name));
    const faults: string[] = [];
    if (tables.length > 0 && changes.length === 0)
      faults.push(`no event for changes of ${tables.join(', ')}`);
    const isRejected = status >= 400;
    if (isRejected && tables.length > 0) faults.push(`a rejected request changed ${tables.join(', ')}`);
    if (isRejected && changes.length > 0) faults.push('a rejected request has an event');
    const named = (value as { event?: { position: number } | null } | null)?.event;
    if (named === null && changes.length > 0) faults.push('an event that the reply denies');
    if (named && changes.at(-1)?.position !== named.position) faults.push('the reply names another event');
    return faults;
  }
}

const hasEvent = ({ status, value }: Reply): boolean =>
  status < 300 && (value as { event?: object | null } | null)?.event != null;

function shuffled<T>(random: Random, all: readonly T[]): T[] {
  const left = [...all];
  return all.map(() => left.splice(random.below(left.length), 1)[0] as T);
}

const shown = (body: Buffer | null): string => (body === null ? '' : body.toString().slice(0, BODY_SHOWN));
