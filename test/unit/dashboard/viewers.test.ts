import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import type { Placed } from '#db/events/events.ts';
import { LIVE_PING_MS, VIEWER_BUFFER_BYTES_MAX, VIEWER_STUCK_MS } from '#server/feed/bounds.ts';
import { audienceOf } from '#server/feed/audience.ts';
import { LiveMessage } from '#server/contract/frames.ts';
import { LivePage } from '#server/feed/page.ts';
import { Viewer } from '#server/feed/viewer.ts';
import type { ViewerPermission } from '#server/feed/viewer-permission.ts';
import { Viewers } from '#server/feed/viewers.ts';
import { ReadModel } from '#server/read-model/read-model.ts';
import { until } from '../../support/relay.ts';

/** One viewer on a real connection, told things in an order that a server meets only now and then. */

let sockets: WebSocketServer;

beforeAll(async () => {
  sockets = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
  await once(sockets, 'listening');
});

afterAll(() => sockets.close());

const audience = audienceOf({ account: 'Account1', key: null }, {});

const LASTING: ViewerPermission = {
  holder: 'key/Key00001',
  isSignedIn: false,
  ended: () => null,
  concerns: () => false,
  evaluate: () => audience.scope,
};

/** A viewer that has come to `position`, and what arrives at the other end of its connection. */
async function openViewer(
  position: number,
): Promise<{ viewer: Viewer; client: WebSocket; seen: LiveMessage[] }> {
  const { port } = sockets.address() as { port: number };
  const client = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: false });
  const seen: LiveMessage[] = [];
  client.on('message', (bytes: Buffer) => seen.push(LiveMessage.parse(JSON.parse(bytes.toString()))));
  const [[socket]] = (await Promise.all([once(sockets, 'connection'), once(client, 'open')])) as unknown as [
    [WebSocket],
  ];
  return { viewer: new Viewer(socket, { right: LASTING, audience, position }), client, seen };
}

function pageOf(from: number, upTo: number, model = 'm'): LivePage {
  const events = Array.from({ length: upTo - from }, (_, index): Placed => ({
    shard: 0,
    position: from + 1 + index,
    at: new Date('2027-01-31T12:00:00Z'),
    instance: 1,
    stream: null,
    version: null,
    event: {
      type: 'request.accepted',
      route: '/v1/chat/completions',
      request: '01a1fffd-088e-7242-bbde-9aba9931f5b9',
      account: 'Account1',
      key: 'Key00001',
      model,
      sse: true,
      body_bytes: 1,
      hold_tokens: 1,
    },
  }));
  return new LivePage(events, () => null);
}

const started = (seen: readonly LiveMessage[]): number[] =>
  seen.flatMap(({ frames }) => frames).flatMap((frame) => (frame.type === 'started' ? [frame.position] : []));
const gaps = (seen: readonly LiveMessage[]): number[] =>
  seen.flatMap(({ frames }) => frames).flatMap((frame) => (frame.type === 'gap' ? [frame.position] : []));

test('one that comes from a server further ahead is told only what it has not had', async () => {
  const viewers = new Viewers(new ReadModel());
  const { viewer, client, seen } = await openViewer(5);
  viewers.add(viewer);
  viewer.caughtUp(true);
  viewers.sendPage(pageOf(0, 3), 0);
  // What is of the moment waits until it is of this viewer's moment.
  viewers.sendProgress(
    [
      {
        type: 'progress',
        request: '01a1fffd-088e-7242-bbde-9aba9931f5b9',
        account: 'Account1',
        key: 'Key00001',
        model: 'm',
        output_tokens: 1,
      },
    ],
    3,
  );
  viewers.sendPage(pageOf(3, 7), 3);
  viewers.sendPage(pageOf(7, 9), 7);
  await until(
    () => started(seen),
    (positions) => positions.at(-1) === 9,
    'the last event',
  );
  expect(started(seen)).toEqual([6, 7, 8, 9]);
  expect(seen.flatMap(({ frames }) => frames).filter(({ type }) => type === 'progress')).toEqual([]);
  client.terminate();
});

test('new events wait while a viewer catches up, and follow the missed ones', async () => {
  const viewers = new Viewers(new ReadModel());
  const { viewer, client, seen } = await openViewer(3);
  viewers.add(viewer);
  viewers.sendPage(pageOf(3, 5), 3);
  for (const message of pageOf(0, 3).messagesFor(audience, 0)) await viewer.sendMissed(message);
  viewers.sendPage(pageOf(5, 6), 5);
  viewer.caughtUp(true);
  await until(
    () => started(seen),
    (positions) => positions.length === 6,
    'all events',
  );
  expect(started(seen)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(gaps(seen)).toEqual([]);
  client.terminate();
});

test('one that exceeds its buffer while it catches up gets a gap after the missed events', async () => {
  const viewers = new Viewers(new ReadModel());
  const { viewer, client, seen } = await openViewer(0);
  viewers.add(viewer);
  const page = pageOf(0, 250, 'm'.repeat(256));
  let position = 0;
  for (
    let bytes = 0;
    bytes <= VIEWER_BUFFER_BYTES_MAX;
    bytes += page.messagesFor(audience, 0)[0]?.length ?? 0
  ) {
    viewers.sendPage(pageOf(position, position + 250, 'm'.repeat(256)), position);
    position += 250;
  }
  viewer.caughtUp(true);
  await until(
    () => gaps(seen),
    (all) => all.length === 1,
    'the gap',
  );
  expect([started(seen), gaps(seen)]).toEqual([[], [position]]);
  client.terminate();
});

test('one whose connection takes nothing for long, or that answers no ping, is given up', async () => {
  const stuck = await openViewer(0);
  stuck.client.pause();
  const page = pageOf(0, 250, 'm'.repeat(256)).messagesFor(audience, 0);
  // Until the kernel takes no more, and then our own bound.
  stuck.viewer.caughtUp(true);
  for (let count = 0; count < 300; count++) stuck.viewer.receivePage(page, 250);
  stuck.viewer.check(performance.now() + VIEWER_STUCK_MS - 5_000);
  stuck.viewer.check(performance.now() + VIEWER_STUCK_MS + 1_000);
  await stuck.viewer.closed;

  const silent = await openViewer(0);
  silent.client.pause();
  silent.viewer.ping();
  silent.viewer.ping();
  await silent.viewer.closed;
  expect(LIVE_PING_MS).toBeLessThanOrEqual(VIEWER_STUCK_MS);
  for (const { client } of [stuck, silent]) client.terminate();
});
