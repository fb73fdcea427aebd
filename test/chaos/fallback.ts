import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { EventOf, Placed } from '#db/events/events.ts';
import { runProgram } from '#server/cli/program.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { errorCodeOf, openRequests } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { openLog, readiness, until } from '../support/relay.ts';
import { spawnServer } from '../support/servers/server-process.ts';
import { refusedPort, startUpstream } from '../support/upstream/upstream.ts';
import type { Attempt } from '../support/upstream/ledger.ts';
import type { Ground } from './ground.ts';
import { randomFrom } from './random.ts';
import type { Finding } from './verdict.ts';

/**
 * An upstream in a process of its own is killed with SIGKILL and started again, again and again, under
 * `streams` calls at a time that go to it first and to another one when it fails. Only a call of which
 * the client has had the first byte may fail, and then it says so in-band.
 */
export type FallbackVerdict = {
  kills: number;
  calls: number;
  /** Answered by the upstream that is never killed, as the first or after the other. */
  byOther: number;
  fellBack: number;
  /** Ended by a kill after their first byte. */
  cut: number;
  /**
   * From the request to the first byte of the reply, in milliseconds: of calls that one upstream answered at
   * once, and of those that took another try.
   */
  firstByteMs: { calm: Spread; direct: Spread; fellBack: Spread };
  /** By how much the slowest of a hundred calls came later because of the kills. */
  addedP99Ms: number;
  violations: Finding[];
};
type Spread = { p50: number; p99: number; max: number };
type Options = { n: number; streams: number; seed: number };
type Settled = EventOf<'request.settled'>;

/** One of them is mostly at its reply when it is hit, the other one mostly before it. */
const MODELS = { prompt: 's:tokens=30,head=30ms,every=40ms', slow: 's:tokens=30,head=700ms,every=10ms' };
const UPSTREAM = path.join(import.meta.dirname, '../support/upstream/upstream.ts');
const CALL_TIMEOUT_MS = 30_000;
const READY_WITHIN_MS = 20_000;
/**
 * So many calls of each stream tell how it is without kills, the first of them being the warm-up; fewer
 * before few kills.
 */
const CALM_CALLS = 4;
const AWAY_MS = { least: 100, more: 900 };
/**
 * It is killed when this share of the streams is at it again, and a moment after: its ejection takes ten
 * seconds.
 */
const BACK_SHARE = 0.5;
const BACK_WITHIN_MS = 60_000;
/** Its ledger is long, and told as a whole. */
const LOOK_EVERY_MS = 250;
const BACK_MS_MAX = 300;
const AFTERWARDS_MS = 1_000;
const PAUSE_AFTER_REFUSAL_MS = 25;

/** The scripted upstream in a process of its own, which can be killed. */
async function spawnUpstream(port: number): Promise<{ kill(): Promise<void> }> {
  const child = spawn(process.execPath, [UPSTREAM, '--port', String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const gone = once(child, 'exit');
  await Promise.race([
    once(child.stdout, 'data'),
    gone.then(() => Promise.reject(new Error('the upstream ended'))),
    wait(READY_WITHIN_MS, null, { ref: false }),
  ]);
  return {
    async kill() {
      child.kill('SIGKILL');
      await gone;
    },
  };
}

export async function fallback(
  { store, url, dataDir }: Ground,
  { n, streams, seed }: Options,
): Promise<FallbackVerdict> {
  const random = randomFrom(seed);
  await using stack = new AsyncDisposableStack();
  const env = {
    DAYBOOK_DATA: dataDir,
    DATABASE_URL: url,
    DAYBOOK_UPSTREAMS: '[]',
    // Nothing here is projected.
    DAYBOOK_WORKER: 'off',
    LOG_LEVEL: process.env['CHAOS_LOG'] ?? 'silent',
  };
  const port = await refusedPort();
  let killed = await spawnUpstream(port);
  stack.defer(() => killed.kill());
  const other = await startUpstream();
  stack.defer(() => other.close());
  const server = await spawnServer(env);
  stack.defer(() => server.kill());
  await command(
    'upstream',
    'add',
    'killed',
    '--base-url',
    `http://127.0.0.1:${port}/v1`,
    '--network',
    'private',
  );
  await command('upstream', 'add', 'other', '--base-url', other.baseUrl, '--network', 'private');
  for (const [name, script] of Object.entries(MODELS))
    await command('model', 'define', name, '--target', `killed:${script}`, '--fallback', `other:${script}`);
  const log = openLog(store);
  stack.defer(log.close);
  const newest = (await log.read()).at(-1)?.position ?? 0;
  await until(
    () => readiness(server.port),
    ({ position }) => position >= newest,
    'the read model',
    READY_WITHIN_MS,
  );

  async function command(...args: string[]): Promise<void> {
    let complaint = '';
    const code = await runProgram(args, { env, out: () => {}, err: (piece) => (complaint += piece) });
    if (code !== 0) throw new Error(complaint);
  }

  type Call = { reply: ChatReply; headMs: number | null; isCalm: boolean };
  const done: Call[] = [];
  const ending = new AbortController();
  let [isCalm, calls] = [true, 0];
  async function caller(): Promise<void> {
    while (!ending.signal.aborted) {
      const isCalmSoFar = isCalm && done.length >= streams;
      const body = {
        model: random.below(2) === 0 ? 'slow' : 'prompt',
        user: `call-${++calls}`,
        stream: true,
        messages: [],
      };
      const { reply, firstByteMs } = await timed(server.port, server.firstKey as string, body);
      done.push({ reply, headMs: firstByteMs, isCalm: isCalmSoFar && isCalm });
      if (reply.status !== 200) await wait(PAUSE_AFTER_REFUSAL_MS);
    }
  }
  const callers = Array.from({ length: streams }, caller);
  await until(
    () => done.length,
    (count) => count >= streams * Math.min(n, CALM_CALLS),
    'the calls before the first kill',
    CALL_TIMEOUT_MS,
  );
  isCalm = false;
  for (let kills = 0; kills < n; kills++) {
    await until(
      () => openAt(port),
      (open) => open >= streams * BACK_SHARE,
      'the streams at the upstream',
      BACK_WITHIN_MS,
    );
    await wait(random.below(BACK_MS_MAX));
    await killed.kill();
    await wait(AWAY_MS.least + random.below(AWAY_MS.more));
    killed = await spawnUpstream(port);
  }
  await wait(AFTERWARDS_MS);
  ending.abort();
  await Promise.all(callers);
  const events = await until(
    log.read,
    (all) => openRequests(all).length === 0,
    'the last open call',
    CALL_TIMEOUT_MS,
  );
  return judge(done, events, other.ledger.attempts, n);
}

/** How many calls are at an upstream, by its own ledger. */
async function openAt(port: number): Promise<number> {
  await wait(LOOK_EVERY_MS);
  const reply = await fetch(`http://127.0.0.1:${port}/__ledger`, { headers: { connection: 'close' } });
  const { attempts } = (await reply.json()) as { attempts: Attempt[] };
  return attempts.filter(({ endedAt }) => endedAt === null).length;
}

async function timed(
  port: number,
  key: string,
  body: object,
): Promise<{ reply: ChatReply; firstByteMs: number | null }> {
  const beganMs = performance.now();
  let firstByteMs: number | null = null;
  const reply = await chat({
    port,
    key,
    body,
    timeoutMs: CALL_TIMEOUT_MS,
    onHead: () => (firstByteMs = performance.now() - beganMs),
  });
  return { reply, firstByteMs };
}

function judge(
  done: readonly { reply: ChatReply; headMs: number | null; isCalm: boolean }[],
  events: readonly Placed[],
  ledger: readonly Attempt[],
  kills: number,
): FallbackVerdict {
  const settlements = new Map(
    events.flatMap(({ event }) =>
      event.type === 'request.settled' ? [[event.request, event] as const] : [],
    ),
  );
  const settledOf = ({ requestId }: ChatReply): Settled | undefined => settlements.get(requestId ?? '');
  // A kill may come between the reply's last word and its [DONE], which is never invented: all of it has
  // come.
  const isWhole = (reply: ChatReply): boolean =>
    reply.status === 200 &&
    reply.finished &&
    reply.finishReason === 'stop' &&
    !reply.sawError &&
    reply.tokens === 30;
  const isWellSettled = (
    { end_reason: reason, output_tokens: output, usage_source: source }: Settled,
    isToItsEnd: boolean,
  ): boolean =>
    reason === 'completed' &&
    output === 30 &&
    (source === 'provider' || (source === 'counted' && !isToItsEnd));
  const isCut = (reply: ChatReply): boolean =>
    reply.status === 200 &&
    reply.finished &&
    !reply.sawDone &&
    errorCodeOf(reply) === 'upstream_disconnected' &&
    reply.events.length > 1;
  const findings = done.flatMap(({ reply }): Finding[] => {
    const settled = settledOf(reply);
    const fail = (message: string): Finding[] => [
      {
        rule: 'fallback',
        request: reply.requestId ?? reply.user ?? '',
        message: [
          `${message}: ${JSON.stringify(settled)}`,
          reply.problem ?? '',
          reply.body.toString().slice(-200),
        ].join(' '),
      },
    ];
    if (!settled) return fail('has no ending');
    if (isWhole(reply))
      return isWellSettled(settled, reply.sawDone)
        ? []
        : fail('came whole, and is settled as something else');
    if (!isCut(reply))
      return fail(`failed with ${reply.status} ${errorCodeOf(reply)} although nothing of it had come`);
    return settled.end_reason === 'upstream_disconnected' && settled.output_tokens === reply.tokens
      ? []
      : fail(`was cut after ${reply.tokens} tokens, and is settled as something else`);
  });
  // Of the upstream that is killed the ledger dies with it: the identity is that of the calls that the other
  // one answered.
  const ofOther = done.map(({ reply }) => reply).filter((reply) => settledOf(reply)?.upstream === 'other');
  const requests = new Set(ofOther.map(({ requestId }) => requestId));
  const theirs = events.filter(({ event }) => 'request' in event && requests.has(event.request));
  const { violations } = checkIdentity({ ledger, events: theirs, clients: ofOther, accounting: 'strict' });

  const fellBack = done.filter(({ reply }) => (settledOf(reply)?.attempt_count ?? 0) > 1);
  const stormy = done.filter(({ isCalm }) => !isCalm);
  const spread = (calls: readonly { headMs: number | null }[]): Spread =>
    spreadOf(calls.flatMap(({ headMs }) => headMs ?? []));
  const calm = spread(done.filter(({ isCalm }) => isCalm));
  return {
    kills,
    calls: done.length,
    byOther: ofOther.length,
    fellBack: fellBack.length,
    cut: done.filter(({ reply }) => isCut(reply)).length,
    firstByteMs: {
      calm,
      direct: spread(stormy.filter((call) => !fellBack.includes(call))),
      fellBack: spread(fellBack),
    },
    addedP99Ms: spread(stormy).p99 - calm.p99,
    violations: [
      ...findings,
      ...violations.map(({ rule, request, message }) => ({ rule, request, message })),
    ],
  };
}

function spreadOf(times: readonly number[]): Spread {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number): number =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}
