import { setTimeout as wait } from 'node:timers/promises';
import type { Store } from '#db/postgres/connect.ts';
import type { Finding } from '../chaos/verdict.ts';
import type { Random } from '../chaos/random.ts';
import { chat, type ChatOptions, type ChatReply } from '../support/client.ts';
import { BREAKAGES, HEALTHY, STATUSES } from '../support/faults.ts';
import type { ClientRow } from '../support/identity/identity.ts';
import { changeControl } from '../support/relay.ts';

/** Replies as providers send most of them. */
const STEADY = [
  's:tokens=20,every=5ms,obey=yes',
  's:tokens=120,every=2ms,usage=always,obey=yes',
  's:tokens=400,batch=10,every=2ms,obey=yes',
  's:tokens=30,head=60ms,obey=yes',
  's:tokens=15,every=20ms,split=random,obey=yes',
];
/** Models of the upstream that misbehaves, each with its script. */
export const FAULTY = [...BREAKAGES, ...STATUSES, ...HEALTHY].map(({ script }) => ({
  model: `f:${script}`,
  script,
}));
/** Of a hundred calls: to an upstream that misbehaves, left by the client, refused by the relay. */
const FAULTY_PERCENT = 12;
const LEFT_PERCENT = 8;
const REFUSED_PERCENT = 2;
const BODY_BYTES = [10, 400, 4_000, 60_000];
const CALL_TIMEOUT_MS = 60_000;
/** The server knows a new key after much less. */
const KEY_KNOWN_AFTER_MS = 5_000;
const KEYS = 6;

export type Load = {
  /** Calls that have ended. */
  calls(): number;
  rows: ClientRow[];
  findings: Finding[];
  keyChanges(): { made: number; failed: number };
  /** Aborted when the load ends, also by an error of its own, which `stop` throws. */
  ended: AbortSignal;
  stop(): Promise<void>;
};

type Key = { id: string; secret: string; revokedMs: number | null };
type LoadOptions = {
  port: number;
  store: Store;
  dataDir: string;
  random: Random;
  callers: number;
  /** The mean pause of a caller between two calls, so that the load is the same throughout. */
  pauseMs: number;
  keyChangeMs: number;
};

/** Mixed calls over changing keys, until it is stopped. */
export async function startLoad(options: LoadOptions): Promise<Load> {
  const { port, store, dataDir, random } = options;
  const ending = new AbortController();
  const rows: ClientRow[] = [];
  const findings: Finding[] = [];
  let begun = 0;
  let changes = 0;
  let failedChanges = 0;
  const keys: Key[] = await changeControl(store, dataDir, async (control, pepper) => {
    await control.createAccount('soak');
    const made: Key[] = [];
    for (let n = 0; n < KEYS; n++) {
      const { id, secret } = await control.createKey(pepper, {
        account: 'soak',
        name: `key ${n}`,
        expiresAt: null,
      });
      made.push({ id, secret, revokedMs: null });
    }
    return made;
  });

  async function caller(): Promise<void> {
    while (!ending.signal.aborted) {
      await wait(random.below(options.pauseMs * 2), undefined, { signal: ending.signal }).catch(
        () => undefined,
      );
      const key = keys[random.below(keys.length)] as Key;
      const reply = await chat(callOf(key));
      rows.push(rowOf(reply));
      judgeReply(reply, key);
    }
  }

  function callOf(key: Key): ChatOptions {
    const isFaulty = random.below(100) < FAULTY_PERCENT;
    const isLeft = !isFaulty && random.below(100) < LEFT_PERCENT;
    const from = isFaulty ? FAULTY.map(({ model }) => model) : STEADY;
    const isRefused = random.below(100) < REFUSED_PERCENT;
    const body = {
      model: isRefused ? 'no-such-model' : (from[random.below(from.length)] as string),
      user: `call-${++begun}`,
      stream: random.below(4) > 0,
      messages: [
        { role: 'user', content: 'x'.repeat(BODY_BYTES[random.below(BODY_BYTES.length)] as number) },
      ],
    };
    return {
      port,
      key: key.secret,
      body,
      timeoutMs: CALL_TIMEOUT_MS,
      ...(isLeft
        ? { abortAfterTokens: 1 + random.below(10), abortBy: random.below(2) ? 'reset' : 'close' }
        : {}),
    };
  }

  function judgeReply({ problem, requestId, user, status }: ChatReply, key: Key): void {
    const request = requestId ?? user ?? '';
    if (problem === 'timeout') findings.push({ rule: 'P10', request, message: 'was left without a reply' });
    const isOurs = status === 401 || status === 403 || (status === null && problem === 'ECONNREFUSED');
    if (isOurs && key.revokedMs === null)
      findings.push({ rule: 'P7', request, message: `got ${status ?? problem} with an active key` });
  }

  /** Replaces the oldest key: a new one joins, and the old one is revoked when no call begins with it. */
  async function changeKeys(): Promise<void> {
    while (!ending.signal.aborted) {
      await wait(options.keyChangeMs, undefined, { signal: ending.signal }).catch(() => undefined);
      if (ending.signal.aborted) return;
      try {
        await changeKey();
        changes++;
      } catch (error) {
        // On a busy machine a change may reach its time-out; the next one is another try.
        if (!(error instanceof Error)) throw error;
        failedChanges++;
      }
    }
  }

  async function changeKey(): Promise<void> {
    const made = await changeControl(store, dataDir, (control, pepper) =>
      control.createKey(pepper, { account: 'soak', name: `key ${KEYS + changes}`, expiresAt: null }),
    );
    await wait(Math.min(KEY_KNOWN_AFTER_MS, options.keyChangeMs));
    keys.push({ id: made.id, secret: made.secret, revokedMs: null });
    const oldest = keys.shift() as Key;
    oldest.revokedMs = performance.now();
    await changeControl(store, dataDir, (control) => control.revokeKey(oldest.id));
  }

  const running = [...Array.from({ length: options.callers }, caller), changeKeys()];
  // An error of the harness ends the run with its reason.
  const all = Promise.all(running);
  all.catch(() => ending.abort());
  return {
    calls: () => rows.length,
    rows,
    findings,
    keyChanges: () => ({ made: changes, failed: failedChanges }),
    ended: ending.signal,
    async stop() {
      ending.abort();
      await all;
    },
  };
}

/** Without the reply's bytes, of which an hour's would fill this process. */
const rowOf = (reply: ChatReply): ClientRow => ({
  user: reply.user,
  model: reply.model,
  requestId: reply.requestId,
  upstreamId: reply.upstreamId,
  status: reply.status,
  bytes: reply.bytes,
  tokens: reply.tokens,
  sawDone: reply.sawDone,
  sawError: reply.sawError,
  finished: reply.finished,
  aborted: reply.aborted,
});
