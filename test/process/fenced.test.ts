import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { recoverInstance, registerInstance } from '#db/instances/instance.ts';
import { Appender } from '#server/instance/appender.ts';
import { chat } from '../support/client.ts';
import { errorCodeOf, openRequests } from '../support/faults.ts';
import { checkIdentity } from '../support/identity/identity.ts';
import { startRelay, until } from '../support/relay.ts';
import { startUpstream } from '../support/upstream/upstream.ts';

test('a fenced server cuts its calls, settles none twice, and registers a new instance', async () => {
  await using upstream = await startUpstream();
  await using relay = await startRelay({ upstreams: [upstream] });
  const call = (model: string, stream: boolean) =>
    chat({ port: relay.port, key: relay.key, body: { model, messages: [], stream, user: randomUUID() } });

  const running = [
    call('s:tokens=5000,every=10ms', true),
    call('s:tokens=5000,every=10ms', false),
    call('s:end=hang@head', true),
  ];
  await upstream.ledger.until(
    (rows) => rows.length === 3 && rows.filter(({ tokensSent }) => tokensSent > 3).length === 2,
  );
  const dead = (await relay.readLog()).at(-1)?.instance ?? 0;

  const client = new Client(relay.store.config('relay'));
  await client.connect();
  const other = await registerInstance(client, 'another server');
  const before = await relay.readLog();
  await recoverInstance(client, dead, other);
  await client.end();
  const abandoned = (await relay.readLog()).slice(before.length).map(({ event }) => event.type);
  expect(abandoned).toEqual(['request.abandoned', 'request.abandoned', 'request.abandoned']);

  const clients = await Promise.all(running);
  expect(clients.map((reply) => [reply.status, errorCodeOf(reply), reply.sawDone])).toEqual([
    [200, 'store_unavailable', false],
    [503, 'store_unavailable', false],
    [503, 'store_unavailable', false],
  ]);
  await upstream.ledger.until((rows) => rows.every(({ endedAt }) => endedAt !== null));

  await until(
    () => call('ok', true),
    (reply) => clients.push(reply) > 0 && reply.status === 200,
    'the server',
  );
  const events = await relay.waitFor((log) => openRequests(log).length === 0);
  expect(events.at(-1)?.instance).not.toBe(dead);
  expect(
    events.filter(
      ({ event }) =>
        event.type === 'request.settled' &&
        clients.slice(0, 3).some(({ requestId }) => requestId === event.request),
    ),
  ).toEqual([]);
  expect(
    checkIdentity({ ledger: upstream.ledger.attempts, events, clients, accounting: 'strict' }).violations,
  ).toEqual([]);
});

test('closing an appender rejects every pending record', async () => {
  const appender = new Appender({
    // A store that neither answers nor refuses.
    connect: () => new Promise(() => {}),
    instance: 1,
    head: 0,
    onFenced: () => {},
    onError: () => {},
  });
  const accepted = appender.accept({
    type: 'request.accepted',
    route: '/v1/chat/completions',
    request: '01890a5d-ac96-774b-bcce-b302099a8057',
    account: '00000000',
    key: '00000000',
    model: 'ok',
    sse: false,
    body_bytes: 1,
    hold_tokens: 1,
  });
  const outcome = expect(accepted).rejects.toMatchObject({ name: 'StoreUnavailable', pending: false });
  await appender.close(0);
  await outcome;
  expect(appender.mode).toBe('closed');
});
