import type { EndReason } from '#db/events/endings.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { HEARTBEAT_TOKENS_MIN } from '#server/instance/bounds.ts';
import type { Attempt } from '../upstream/ledger.ts';

/**
 * The accounting identity: three views of the same calls, which must agree. The upstream's ledger
 * says what was spent, the log what was written down, the clients what arrived. Pure: it reads
 * nothing and waits for nothing, so the caller brings the views after every call has ended.
 *
 * A client's row is tied to its attempts by `user`, a string that the test puts into each request
 * and that no two calls share, and to its events by the `x-request-id` that the client was given.
 * A client that left before it saw one is tied to the log only by number: see `unrecorded`.
 */
export type ClientRow = {
  user: string | null;
  model: string | null;
  /** The relay's `x-request-id`; null when the head never arrived. */
  requestId: string | null;
  /** The `id` in the reply's body or chunks. */
  upstreamId: string | null;
  status: number | null;
  /** Bytes of the reply's body that arrived. */
  bytes: number;
  /** Content deltas that arrived (of a JSON reply: the tokens in its text). */
  tokens: number;
  sawDone: boolean;
  /** An error object arrived, as the body or within the stream. */
  sawError: boolean;
  /** The body came to its proper end. */
  finished: boolean;
  /** The client left of its own accord. */
  aborted: boolean;
};

export type World = {
  ledger: readonly Attempt[];
  /** The log's events, in its order. */
  events: readonly Placed[];
  clients: readonly ClientRow[];
  /** In overlapped accounting an attempt may be unrecorded as long as nothing of it was delivered. */
  accounting: 'strict' | 'overlapped';
};

export type Rule = 'I1' | 'I2' | 'I3' | 'I5' | 'P2' | 'P8';

/** What disagrees. `request` is the request's id, or the client's `user` where no id is known. */
export type Violation = { rule: Rule; request: string; message: string };

export type Verdict = {
  violations: Violation[];
  /** Overlapped accounting only: attempts that no accepted event covers and that delivered nothing. */
  unattributed: Attempt[];
};

type Accepted = Placed<EventOf<'request.accepted'>>;
type Ending = Placed<EventOf<'request.settled'> | EventOf<'request.abandoned'>>;
type Settled = EventOf<'request.settled'>;

/** One client's call with everything that is known of it. */
type Call = {
  client: ClientRow;
  attempts: Attempt[];
  final: Attempt | null;
  settled: Settled | null;
  /** When the relay ended it, in ms since 1970; infinite if it is not settled. */
  endedByMs: number;
};

type Log = {
  accepted: Map<string, Accepted[]>;
  endings: Map<string, Ending[]>;
  /** What each request held last. */
  holds: Map<string, number>;
};

/** The time in a UUIDv7, in ms since 1970: the relay makes the id when it begins to measure the duration. */
const createdMs = (request: string): number => Number.parseInt(request.replaceAll('-', '').slice(0, 12), 16);

/** What an upstream sent so long before the end of a call was there for the relay to read. */
const READ_WITHIN_MS = 1_000;

/**
 * Compares the three views.
 * @throws {Error} when two clients have the same `user`: then the test is wrong, not the relay.
 */
export function checkIdentity({ ledger, events, clients, accounting }: World): Verdict {
  const log = readLog(events);
  const requests = [...new Set([...log.accepted.keys(), ...log.endings.keys()])];
  const calls = joinCalls(ledger, log, clients);
  const received = new Map(clients.map(({ requestId, tokens }) => [requestId, tokens]));
  const { violations, unattributed } = unrecorded(ledger, log, clients, accounting);
  return {
    violations: [
      ...requests.flatMap((request) => [
        ...oneEnding(request, log),
        ...recoveredCharge(request, log, received),
      ]),
      ...calls.flatMap((call) => [...recordedFirst(call, log), ...trueUsage(call)]),
      ...calls.flatMap((call) => [...byteExact(call), ...trueReason(call)]),
      ...violations,
    ],
    unattributed,
  };
}

function readLog(events: readonly Placed[]): Log {
  const log: Log = { accepted: new Map(), endings: new Map(), holds: new Map() };
  for (const { event, ...place } of events) {
    if (event.type === 'request.accepted' || event.type === 'request.extended')
      log.holds.set(event.request, event.hold_tokens);
    if (event.type === 'request.accepted') push(log.accepted, event.request, { ...place, event });
    if (event.type === 'request.settled' || event.type === 'request.abandoned') {
      push(log.endings, event.request, { ...place, event });
    }
  }
  return log;
}

function joinCalls(ledger: readonly Attempt[], log: Log, clients: readonly ClientRow[]): Call[] {
  const byUser = Map.groupBy(ledger, (attempt) => attempt.user);
  const users = new Set<string>();
  return clients.map((client) => {
    if (client.user !== null && users.has(client.user))
      throw new Error(`two clients have the user "${client.user}"`);
    if (client.user !== null) users.add(client.user);
    const attempts = client.user === null ? [] : (byUser.get(client.user) ?? []);
    const final = attempts.find((attempt) => attempt.id === client.upstreamId) ?? attempts.at(-1) ?? null;
    const ending = client.requestId === null ? undefined : log.endings.get(client.requestId)?.[0];
    const settled = ending?.event.type === 'request.settled' ? ending.event : null;
    // On a busy machine the events are committed seconds after what they record, so their times say less.
    const endedByMs = settled ? createdMs(settled.request) + settled.duration_ms : Infinity;
    return { client, attempts, final, settled, endedByMs };
  });
}

/** I1: whoever received anything of a relayed reply is in the log. */
function recordedFirst({ client }: Call, log: Log): Violation[] {
  if (client.upstreamId === null && !isSuccess(client.status)) return [];
  if (client.requestId === null) return [violation('I1', client, 'was relayed without an x-request-id')];
  if (log.accepted.has(client.requestId)) return [];
  return [violation('I1', client, `received ${client.bytes} bytes, but its acceptance is not in the log`)];
}

/** I2: one acceptance, then one ending, for the same account and key. */
function oneEnding(request: string, log: Log): Violation[] {
  const [accepted, ...moreAccepted] = log.accepted.get(request) ?? [];
  const [ending, ...moreEndings] = log.endings.get(request) ?? [];
  const fail = (message: string): Violation[] => [{ rule: 'I2', request, message }];
  if (!accepted) return fail('has an ending, but was never accepted');
  if (moreAccepted.length > 0) return fail(`was accepted ${moreAccepted.length + 1} times`);
  if (!ending) return fail('was accepted, but has no ending');
  if (moreEndings.length > 0) return fail(`has ${moreEndings.length + 1} endings`);
  if (ending.position <= accepted.position) return fail('ends in the log before it was accepted');
  if (ending.event.account !== accepted.event.account || ending.event.key !== accepted.event.key) {
    return fail('is charged to another account or key than it was accepted for');
  }
  return [];
}

/**
 * I3: an abandoned request is charged at most its reservation, and no less than its client received. A call
 * that the last heartbeat reported is charged its prompt, the tokens relayed by then and at least
 * HEARTBEAT_TOKENS_MIN more; any other one its whole reservation. The calls of these tests relay fewer tokens
 * than that between two heartbeats, so that no received token may be missing.
 */
function recoveredCharge(
  request: string,
  log: Log,
  received: ReadonlyMap<string | null, number>,
): Violation[] {
  const held = log.holds.get(request);
  const ending = log.endings.get(request)?.[0]?.event;
  if (held === undefined || ending?.type !== 'request.abandoned') return [];
  const charge = ending.hold_tokens;
  const fail = (message: string): Violation[] => [{ rule: 'I3', request, message }];
  if (charge > held) return fail(`keeps a hold of ${charge}, but ${held} were held`);
  const tokens = received.get(request) ?? 0;
  const least = Math.min(held, Math.max(HEARTBEAT_TOKENS_MIN, tokens));
  if (charge >= least) return [];
  return fail(`is charged ${charge} of ${held} held, but its client received ${tokens}: at least ${least}`);
}

/** The upstream was silent, the key was revoked, or a limit is used up: the upstream need not have ended. */
const CUT_BY_RELAY: ReadonlySet<EndReason> = new Set(['timed_out', 'access_revoked', 'quota_exceeded']);

/** I3: what is settled is what the provider reported, or else what was relayed. */
function trueUsage({ client, attempts, final, settled, endedByMs }: Call): Violation[] {
  if (!settled) return [];
  const fail = (message: string): Violation[] => [violation('I3', client, message)];
  if (attempts.length > settled.attempt_count) {
    return fail(`made ${attempts.length} attempts at the upstream, but settles ${settled.attempt_count}`);
  }
  if (!final && settled.input_tokens + settled.output_tokens > 0)
    return fail('is charged, but never reached the upstream');
  const reported = final?.usageReported ?? null;
  const stayed = client.finished && !client.aborted;
  const source = settled.usage_source;
  // A relay that cut the reply by its own decision has not read what the upstream sent afterwards.
  const isLate =
    CUT_BY_RELAY.has(settled.end_reason) &&
    client.sawError &&
    (final?.usageAt ?? -Infinity) > endedByMs - READ_WITHIN_MS;
  const isKnown = reported !== null && final?.usageIsFinal === true && !isLate;
  if (source !== 'provider' && stayed && isSuccess(client.status) && isKnown) {
    return fail(`is ${source} (${settled.end_reason}) although the provider had reported its usage`);
  }
  const output = settled.output_tokens;
  const sent = final?.tokensSent ?? 0;
  switch (source) {
    case 'provider':
      return providerUsage(client, final, settled);
    case 'counted':
      if (stayed && output !== client.tokens)
        return fail(`counts ${output} tokens, but ${client.tokens} were relayed`);
      if (output < client.tokens)
        return fail(`counts ${output} tokens, but the client received ${client.tokens}`);
      return output > sent ? fail(`counts ${output} tokens, but the upstream sent ${sent}`) : [];
    case 'estimated':
      return final?.sse && client.tokens > 0 ? fail('is estimated although its tokens could be counted') : [];
    case 'implausible':
      return reported === null ? [] : fail('is implausible although the provider reported what it sent');
    case 'none':
      return client.tokens > 0 || output > 0 || settled.input_tokens > 0
        ? fail('has tokens, but no source of them')
        : [];
  }
  return [];
}

function providerUsage(client: ClientRow, final: Attempt | null, settled: Settled): Violation[] {
  const fail = (message: string): Violation[] => [violation('I3', client, message)];
  const reported = final?.usageReported;
  if (!reported) return fail('claims a report of the provider, which made none');
  const { prompt, cached, written: cacheWrite = 0, completion, reasoning } = reported;
  const told = [prompt, cached, cacheWrite, completion, reasoning];
  const written = [
    settled.input_tokens,
    settled.cache_read_tokens,
    settled.cache_write_tokens ?? 0,
    settled.output_tokens,
    settled.reasoning_tokens,
  ];
  if (final.usageIsFinal) {
    if (told.join() === written.join()) return [];
    return fail(`settles ${written.join('/')}, but the provider reported ${told.join('/')}`);
  }
  // A running total that was cut short: the relay may have seen an earlier one than the last.
  const inRange = client.tokens <= settled.output_tokens && settled.output_tokens <= reported.completion;
  if (inRange && settled.input_tokens === reported.prompt) return [];
  return fail(`settles ${written.join('/')}, out of the running ${told.join('/')}`);
}

/** P8: nothing is invented, and a reply that the upstream did not finish does not look finished. */
function byteExact({ client, attempts, final }: Call): Violation[] {
  const fail = (message: string): Violation[] => [violation('P8', client, message)];
  if (client.sawDone && !attempts.some((attempt) => attempt.doneSent))
    return fail('saw a [DONE] that no upstream sent');
  if (client.tokens > (final?.tokensSent ?? 0)) {
    return fail(`received ${client.tokens} tokens, but the upstream sent ${final?.tokensSent ?? 0}`);
  }
  if (!final || final.finishSent || !isSuccess(client.status) || !client.finished || client.sawError)
    return [];
  // A JSON body whose Content-Length is kept is passed on whole, whatever is in it.
  const tornOff = final.ended !== 'stopped' && final.ended !== 'garbage' && final.ended !== 'complete';
  return final.sse || tornOff ? fail(`looks finished, but the upstream's reply was ${final.ended}`) : [];
}

/** P2: the reason in the log is what happened. */
function trueReason({ client, final, settled }: Call): Violation[] {
  if (!settled) return [];
  const fail = (message: string): Violation[] => [violation('P2', client, message)];
  if (client.status !== null && settled.status !== client.status) {
    return fail(`settles status ${settled.status}, but the client was given ${client.status}`);
  }
  if (settled.end_reason === 'completed') {
    if (!final?.finishSent)
      return fail(`is completed, but the upstream's reply was ${final?.ended ?? 'never asked for'}`);
    if (!isSuccess(settled.status)) return fail(`is completed with status ${settled.status}`);
    return client.finished || client.aborted ? [] : fail('is completed, but the client was cut off');
  }
  if (settled.end_reason === 'client_disconnected' && client.finished && !client.aborted) {
    return fail('says that the client left, but it stayed to the end');
  }
  const whole =
    final?.ended === 'complete' && isSuccess(client.status) && client.finished && !client.sawError;
  return whole ? fail(`is ${settled.end_reason}, but the reply was complete and arrived`) : [];
}

/**
 * I5: every attempt at the upstream belongs to an accepted request. Clients that know their request
 * id are looked up. The others are counted: of each model, the calls that reached the upstream may
 * not outnumber the accepted requests that no client knows, because each of them needs one of those.
 */
function unrecorded(
  ledger: readonly Attempt[],
  log: Log,
  clients: readonly ClientRow[],
  accounting: World['accounting'],
): Verdict {
  const clientOf = new Map(clients.map((client) => [client.user, client]));
  const claimed = new Set([...clients, ...ledger].map((row) => row.requestId));
  const nameless = new Map<string, Attempt[][]>();
  const verdict: Verdict = { violations: [], unattributed: [] };

  function report(attempts: Attempt[]): void {
    const [first] = attempts;
    if (!first) return;
    const client = clientOf.get(first.user);
    // What a client gets as a 5xx is the relay's own answer, not the unrecorded reply.
    const nothingDelivered = !client || client.bytes === 0 || (client.status ?? 0) >= 500;
    if (accounting === 'overlapped' && nothingDelivered) {
      verdict.unattributed.push(...attempts);
      return;
    }
    const request = client?.requestId ?? first.user ?? first.id;
    const message = `reached the upstream as ${first.id} without an acceptance in the log`;
    verdict.violations.push({ rule: 'I5', request, message });
  }

  for (const [user, attempts] of Map.groupBy(
    ledger,
    (attempt) => attempt.user ?? `without user: ${attempt.id}`,
  )) {
    const client = clientOf.get(user);
    const forwarded = attempts.find(({ requestId: id }) => id !== null && log.accepted.has(id))?.requestId;
    const requestId = forwarded ?? client?.requestId ?? null;
    if (requestId === null) push(nameless, client?.model ?? attempts[0]?.model ?? '', attempts);
    else if (!log.accepted.has(requestId)) report(attempts);
  }
  const unclaimed = [...log.accepted.values()].flat().filter(({ event }) => !claimed.has(event.request));
  const spare = Map.groupBy(unclaimed, ({ event }) => event.model);
  for (const [model, calls] of nameless) {
    for (const surplus of calls.slice(spare.get(model)?.length ?? 0)) report(surplus);
  }
  return verdict;
}

function violation(rule: Rule, client: ClientRow, message: string): Violation {
  return { rule, request: client.requestId ?? client.user ?? '(no user)', message };
}

function isSuccess(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const values = map.get(key);
  if (values) values.push(value);
  else map.set(key, [value]);
}
