import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { openRequests, settledOf } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { expectRefusal, onlyReply, rawRequest } from '../support/wire/raw-http.ts';
import { hasHadItsTurn, type HeldLog, holdLog, startRelay, type TestRelay } from '../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/**
 * Promise P1, and what becomes of it when the store doesn't answer. The store is made to wait by
 * holding the lock of the log; after two seconds the appender gives an append up.
 */
describe.each(['strict', 'overlapped'] as const)('%s accounting', (accounting) => {
  let upstream: ScriptedUpstream;
  let relay: TestRelay;
  let held: HeldLog;

  beforeEach(async () => {
    upstream = await startUpstream();
    const nobody = { baseUrl: `http://127.0.0.1:${await refusedPort()}/v1`, models: ['nothing'] };
    relay = await startRelay({ upstreams: [upstream, nobody], env: { ACCOUNTING: accounting } });
    held = await holdLog(relay.store);
  });

  afterEach(async () => {
    await held?.release();
    await relay?.[Symbol.asyncDispose]();
    await upstream?.close();
  });

  const ask = (model: string, stream: boolean, more: object = {}) => ({
    model,
    stream,
    messages: [],
    user: randomUUID(),
    ...more,
  });
  const call = (body: object, more: object = {}): Promise<ChatReply> =>
    chat({ port: relay.port, key: relay.key, body, ...more });
  const ended = (): Promise<Placed[]> =>
    relay.waitFor(
      (log) => log.some(({ event }) => event.type === 'request.accepted') && openRequests(log).length === 0,
    );
  const settlements = (log: readonly Placed[]) =>
    log.map(({ event }) => event).filter((event) => event.type === 'request.settled');

  /** A client whose reply can be watched as it grows. */
  function watch(body: object): { socket: Socket; received(): Buffer; whole: Promise<Buffer> } {
    const parts: Buffer[] = [];
    const socket = connect(relay.port, '127.0.0.1', () => {
      socket.write(
        rawRequest([`Authorization: Bearer ${relay.key}`, 'Connection: close'], {
          body: JSON.stringify(body),
        }),
      );
    });
    socket.on('data', (part: Buffer) => parts.push(part));
    const whole = new Promise<Buffer>((resolve) => socket.on('close', () => resolve(Buffer.concat(parts))));
    return { socket, received: () => Buffer.concat(parts), whole };
  }

  test('not a byte reaches the client before the call is in the log, then all of it does', async () => {
    const clients = [true, false].map((stream) =>
      watch(ask('s:tokens=20', stream, { stream_options: { include_usage: true } })),
    );
    await held.awaited();
    // Strict accounting does not even call the upstream.
    if (accounting === 'overlapped')
      await upstream.ledger.until((rows) => rows.length === 2 && rows.every(({ status }) => status === 200));
    await hasHadItsTurn(relay.port);
    expect(clients.map(({ received }) => received().length)).toEqual([0, 0]);
    expect(upstream.ledger.attempts).toHaveLength(accounting === 'strict' ? 0 : 2);

    await held.release();
    const replies = await Promise.all(clients.map(async ({ whole }) => onlyReply(await whole)));
    const sent = upstream.ledger.attempts.map(({ attempt }) => upstream.ledger.replyBody(attempt).toString());
    expect(replies.map(({ status }) => status)).toEqual([200, 200]);
    expect(replies.map(({ body }) => body.toString()).toSorted()).toEqual(sent.toSorted());
    const complete = { end_reason: 'completed', usage_source: 'provider', output_tokens: 20 };
    expect(settlements(await ended())).toMatchObject([complete, complete]);
  });

  test('not even an error does', async () => {
    const errors = [
      ['s:status=400', 400, 'upstream_rejected'],
      ['s:status=500', 502, 'upstream_error'],
      ['s:end=cut@head', 502, 'upstream_error'],
      ['s:garbage=body', 502, 'upstream_error'],
      ['s:end=cut@3', 502, 'upstream_disconnected'],
      ['nothing', 502, 'upstream_unreachable'],
    ] as const;
    const clients = errors.map(([model]) => watch(ask(model, false)));
    await held.awaited();
    if (accounting === 'overlapped') {
      await upstream.ledger.until(
        (rows) => rows.length === errors.length - 1 && rows.every(({ ended: how }) => how !== 'open'),
      );
    }
    await hasHadItsTurn(relay.port);
    expect(clients.map(({ received }) => received().length)).toEqual(errors.map(() => 0));
    await held.release();
    for (const [index, [, status, code]] of errors.entries()) {
      expectRefusal(onlyReply(await (clients[index] as (typeof clients)[number]).whole), status, code);
    }
    expect(settlements(await ended())).toHaveLength(errors.length);
  });

  test("a call that can't be recorded is a 503 with a retry hint, and nothing of a reply", async () => {
    const replies = await Promise.all([true, false].map((stream) => call(ask('s:tokens=20', stream))));
    for (const reply of replies) {
      expectRefusal(
        { status: reply.status ?? 0, headers: reply.headers, body: reply.body },
        503,
        'store_unavailable',
      );
      expect(reply.header('retry-after')).toMatch(/^[1-5]$/);
    }
    expect(upstream.ledger.attempts).toHaveLength(accounting === 'strict' ? 0 : 2);

    // What was sent to the store may have been written: so it is, in the end, with the ending it had.
    await held.release();
    const events = await ended();
    const recorded = replies.flatMap(({ requestId }) => settledOf(events, requestId) ?? []);
    expect(recorded.length).toBeGreaterThan(0);
    for (const settled of recorded) {
      expect(settled).toMatchObject({
        end_reason: 'service_unavailable',
        usage_source: 'none',
        status: 503,
        output_tokens: 0,
      });
    }
    const { violations, unattributed } = checkIdentity({
      ledger: upstream.ledger.attempts,
      events,
      clients: replies,
      accounting,
    });
    expect(violations).toEqual([]);
    expect(unattributed).toHaveLength(accounting === 'strict' ? 0 : replies.length - recorded.length);
    expect((await call(ask('ok', false))).status).toBe(200);
  });

  test('once the store is known to be down, calls fail fast and no upstream is called', async () => {
    // Connections that are open already could carry a call before anyone had time to stop it.
    await held.release();
    await Promise.all(Array.from({ length: 20 }, () => call(ask('s:head=50ms', false))));
    held = await holdLog(relay.store);
    expect((await call(ask('ok', false))).status).toBe(503);
    const before = upstream.ledger.attempts.length;
    const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => call(ask('ok', n % 2 === 0))));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([503]));
    await hasHadItsTurn(relay.port);
    expect(upstream.ledger.attempts).toHaveLength(before);

    await held.release();
    await expect.poll(async () => (await call(ask('ok', false))).status).toBe(200);
    // What was refused at once was never sent to the store.
    const accepted = (await ended())
      .map(({ event }) => event)
      .filter((event) => event.type === 'request.accepted');
    expect(accepted.filter(({ request }) => replies.some(({ requestId }) => requestId === request))).toEqual(
      [],
    );
  });

  test('a client that leaves while its call is being recorded pays only for upstream work', async () => {
    const leave = new AbortController();
    const leaving = call(ask('s:end=hang@head', true), { signal: leave.signal });
    await held.awaited();
    if (accounting === 'overlapped') await upstream.ledger.until((rows) => rows.length === 1);
    leave.abort();
    const reply = await leaving;
    await hasHadItsTurn(relay.port);
    await held.release();
    const events = await ended();
    const charged = accounting === 'overlapped';
    const source = charged ? 'estimated' : 'none';
    expect(settlements(events)).toMatchObject([
      { end_reason: 'client_disconnected', status: 499, usage_source: source, output_tokens: 0 },
    ]);
    expect((settlements(events)[0]?.input_tokens ?? 0) > 0).toBe(charged);
    expect(upstream.ledger.attempts).toHaveLength(charged ? 1 : 0);
    await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));
    expect(
      checkIdentity({ ledger: upstream.ledger.attempts, events, clients: [reply], accounting }).violations,
    ).toEqual([]);
  });

  test('a client disconnect followed by a store outage settles the call once', async () => {
    const leave = new AbortController();
    const leaving = call(ask('s:end=hang@head', true), { signal: leave.signal });
    await held.awaited();
    leave.abort();
    const reply = await leaving;
    // The append has been given up when another call is refused for it.
    expect((await call(ask('ok', false))).status).toBe(503);
    await held.release();
    const events = await ended();
    expect(
      settlements(events).filter(
        ({ end_reason: reason }) => reason === 'client_disconnected' || reason === 'service_unavailable',
      ).length,
    ).toBe(events.filter(({ event }) => event.type === 'request.accepted').length);
    expect(
      checkIdentity({ ledger: upstream.ledger.attempts, events, clients: [reply], accounting }).violations,
    ).toEqual([]);
  });
});
