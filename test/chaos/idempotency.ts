import { setTimeout as wait } from 'node:timers/promises';
import type { Placed } from '#db/events/events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { openRequests } from '../support/faults.ts';
import { isRunning, liveServers } from '../support/instances.ts';
import { changeControl, openLog, until, upstreamsVariable } from '../support/relay.ts';
import { AS_OPERATOR } from '../support/servers/operator.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import type { Attempt } from '../support/upstream/ledger.ts';
import { startUpstream } from '../support/upstream/upstream.ts';
import type { Ground } from './ground.ts';
import { type Random, randomFrom } from './random.ts';
import type { Finding } from './verdict.ts';

export type IdempotencyVerdict = {
  /** Requests with a key of their own, and how often they were sent beyond the first time. */
  requests: number;
  retries: number;
  kills: number;
  /** Sends whose client left. */
  aborted: number;
  /** Replies that another send of the same request had begun. */
  repeated: number;
  /** Requests that ended with a reply, and with each error. */
  outcomes: Record<string, number>;
  upstreamCalls: number;
  charges: number;
  violations: Finding[];
};

const REPLIES = [
  's:tokens=3',
  's:tokens=12,every=15ms',
  's:tokens=30,every=10ms',
  's:tokens=5,head=150ms',
  's:tokens=8,every=5ms,split=random',
];
const INSTANCES = 3;
const CALL_TIMEOUT_MS = 60_000;
const ENDED_WITHIN_MS = 120_000;
/** Answers that a further retry doesn't change. */
const FINAL_ERRORS = new Set(['idempotent_outcome_unknown', 'idempotent_reply_unavailable']);
/** Longer than a kill with its recovery, however busy the machine is. */
const SENDS_MAX = 500;

/** One request, all of its replies, and how it ended. */
type Sent = { user: string; replies: ChatReply[]; outcome: string };

/**
 * Sends requests with idempotency keys again and again: after their clients left at random moments, at the
 * same time over several connections, and while one of three server processes is killed at random moments.
 * Each request is sent to the upstream and charged once, and has one reply.
 */
export async function idempotency(
  { store, url, dataDir }: Ground,
  {
    n,
    streams,
    seed,
    killEveryMs = 4_000,
  }: { n: number; streams: number; seed: number; killEveryMs?: number },
): Promise<IdempotencyVerdict> {
  const random = randomFrom(seed);
  await using upstream = await startUpstream();
  const server = await spawnServer({
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: upstreamsVariable([upstream]),
    DAYBOOK_INSTANCES: String(INSTANCES),
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  });
  const log = openLog(store);
  try {
    const key = server.firstKey as string;
    await changeControl(store, dataDir, (control) =>
      control.overrideTerms('first', { keep_replies: true }, 'keep'),
    );
    await everyServerKnows(server.port, (await log.read()).at(-1)?.position ?? 0);

    const all: Sent[] = [];
    const figures = { retries: 0, aborted: 0 };
    const ended = new AbortController();
    const sender = async (): Promise<void> => {
      while (figures.retries < n) {
        const sent = { user: `request-${all.length + 1}`, replies: [], outcome: 'none' };
        all.push(sent);
        await sendUntilEnded(sent, { port: server.port, key, random, figures });
      }
    };
    let kills = 0;
    const killer = async (): Promise<void> => {
      while (!ended.signal.aborted) {
        await wait(killEveryMs * (0.5 + random.below(100) / 100), undefined, { signal: ended.signal }).catch(
          () => undefined,
        );
        const running = (await liveServers(store)).filter(({ pid }) => isRunning(pid));
        if (ended.signal.aborted || running.length < INSTANCES) continue;
        process.kill(running[random.below(running.length)]?.pid as number, 'SIGKILL');
        kills++;
      }
    };
    const killing = killer();
    await Promise.all(Array.from({ length: streams }, sender));
    ended.abort();
    await killing;

    const events = await until(
      log.read,
      (seen) => openRequests(seen).length === 0,
      'the last open call',
      ENDED_WITHIN_MS,
    );
    const charged = chargesOf(events);
    return {
      requests: all.length,
      ...figures,
      kills,
      repeated: all.flatMap(({ replies }) => replies).filter(isRepeated).length,
      outcomes: countBy(all.map(({ outcome }) => outcome)),
      upstreamCalls: upstream.ledger.attempts.length,
      charges: [...charged.values()].reduce((sum, requests) => sum + requests.length, 0),
      violations: [
        ...all.flatMap((sent) => checkReplies(sent, upstream.ledger.attempts)),
        ...checkCharges(events, charged, all),
      ],
    };
  } finally {
    await log.close();
    // Not by a kill: a server process that is just starting would notice it later.
    await server.stop();
  }
}

const isRepeated = (reply: ChatReply): boolean => reply.header('idempotent-replayed') === 'true';
const isWhole = ({ status, finished }: ChatReply): boolean => status === 200 && finished;

/** Waits until each of the processes has read the log up to this position. */
async function everyServerKnows(port: number, position: number): Promise<void> {
  const informed = new Set<number>();
  const look = async (): Promise<number> => {
    const reply = await fetch(`http://127.0.0.1:${port}/readyz`, {
      headers: { connection: 'close', ...AS_OPERATOR },
    });
    const seen = (await reply.json()) as { instance: number; read_model: { position: number } };
    if (seen.read_model.position >= position) informed.add(seen.instance);
    return informed.size;
  };
  await until(look, (count) => count === INSTANCES, 'the read models');
}

type Sending = { port: number; key: string; random: Random; figures: { retries: number; aborted: number } };

/** Sends a request until an answer is final; some of its sends leave, and some go out together. */
async function sendUntilEnded(sent: Sent, { port, key, random, figures }: Sending): Promise<void> {
  const body = {
    model: REPLIES[random.below(REPLIES.length)] as string,
    user: sent.user,
    stream: random.below(3) > 0,
    messages: [{ role: 'user', content: 'hi' }],
  };
  const send = async (): Promise<ChatReply> => {
    const leaves = random.below(2) === 0;
    const signal = leaves ? AbortSignal.timeout(random.below(400)) : undefined;
    const reply = await chat({
      port,
      key,
      body,
      headers: { 'idempotency-key': sent.user },
      timeoutMs: CALL_TIMEOUT_MS,
      ...(signal && { signal }),
    });
    if (reply.aborted) figures.aborted++;
    return reply;
  };
  while (sent.replies.length < SENDS_MAX) {
    const together = 1 + random.below(3);
    const replies = await Promise.all(Array.from({ length: together }, send));
    figures.retries += sent.replies.length === 0 ? together - 1 : together;
    sent.replies.push(...replies);
    const final = replies.map(outcomeOf).find((outcome) => outcome !== null);
    if (final !== undefined) {
      sent.outcome = final;
      // Some are sent once more afterwards.
      if (random.below(2) === 0) return;
      sent.replies.push(await send());
      figures.retries++;
      return;
    }
    await wait(random.below(100));
  }
}

/** The answer of a request that is over; null: it is to be sent again. */
function outcomeOf(reply: ChatReply): string | null {
  if (isWhole(reply)) return 'reply';
  const code = codeOf(reply);
  return code !== null && FINAL_ERRORS.has(code) ? code : null;
}

function codeOf({ status, finished, body }: ChatReply): string | null {
  if (status === null || status < 400 || !finished) return null;
  return (JSON.parse(body.toString()) as { error: { code: string } }).error.code;
}

/** One upstream call at most, one where there is a reply; and all whole replies are the same one. */
function checkReplies({ user, replies, outcome }: Sent, attempts: readonly Attempt[]): Finding[] {
  const findings: Finding[] = [];
  const find = (message: string): void => {
    findings.push({ rule: 'idempotency', request: user, message });
  };
  const calls = attempts.filter((attempt) => attempt.user === user).length;
  if (calls > 1 || (outcome === 'reply' && calls !== 1)) find(`was sent to the upstream ${calls} times`);
  const whole = replies.filter(isWhole);
  if (new Set(whole.map(({ body }) => body.toString())).size > 1) find('has several replies');
  if (new Set(whole.map(originalOf)).size > 1) find('has replies to several requests');
  if (outcome === 'none') find(`has no outcome after ${replies.length} sends`);
  const odd = replies.filter(({ status }) => status !== null && ![200, 409, 503].includes(status));
  if (odd.length > 0) find(`got ${odd[0]?.status}: ${odd[0]?.body.toString().slice(0, 300)}`);
  return findings;
}

const originalOf = (reply: ChatReply): string | null => reply.header('original-request') ?? reply.requestId;

/** The requests that were charged for each end user: each idempotency key has its own. */
function chargesOf(events: readonly Placed[]): Map<string, string[]> {
  const charges = new Map<string, string[]>();
  for (const { event } of events) {
    const isCharged =
      (event.type === 'request.settled' && event.usage_source !== 'none') ||
      event.type === 'request.abandoned';
    if (!isCharged || event.end_user === undefined) continue;
    charges.set(event.end_user, [...(charges.get(event.end_user) ?? []), event.request]);
  }
  return charges;
}

/** One charge at most, and the reply of each request is to the charged one. */
function checkCharges(
  events: readonly Placed[],
  charges: ReadonlyMap<string, readonly string[]>,
  all: readonly Sent[],
): Finding[] {
  const several = [...charges.values()].filter((requests) => requests.length > 1);
  const endUserOf = new Map(
    events.flatMap(({ event }) =>
      event.type === 'request.accepted' ? [[event.request, event.end_user]] : [],
    ),
  );
  const uncharged = all.filter(({ replies, outcome }) => {
    const whole = replies.find(isWhole);
    if (outcome !== 'reply' || !whole) return false;
    const request = originalOf(whole) ?? '';
    return !charges.get(endUserOf.get(request) ?? '')?.includes(request);
  });
  return [
    ...several.map((requests) => ({
      rule: 'idempotency',
      request: requests[0] as string,
      message: `was charged ${requests.length} times: ${requests.join(', ')}`,
    })),
    ...uncharged.map(({ user }) => ({
      rule: 'idempotency',
      request: user,
      message: 'has a reply to a request that was not charged',
    })),
  ];
}

const countBy = (names: readonly string[]): Record<string, number> =>
  Object.fromEntries(
    Object.entries(Object.groupBy(names, (name) => name)).map(([name, all]) => [name, all?.length ?? 0]),
  );
