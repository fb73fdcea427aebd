import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed, RequestEvent } from '#db/events/events.ts';
import { heartbeat } from '#db/instances/instance.ts';
import { PROGRESS_EVERY_MS, RESUME_EVENTS_MAX } from '#server/feed/bounds.ts';
import type { LiveMessage } from '#server/contract/frames.ts';
import { type Fleet, startFleet } from '../support/fleet.ts';
import { lookOn } from '../support/live.ts';
import { accepted, connectAs, openLivingWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { until } from '../support/relay.ts';
import { startUpstream, type ScriptedUpstream } from '../support/upstream/upstream.ts';

/** A viewer that comes back, to the same server or to another, with the position that it had reached. */

let upstream: ScriptedUpstream;
let fleet: Fleet;

beforeAll(async () => {
  upstream = await startUpstream();
  fleet = await startFleet({ upstreams: [upstream], instances: 2 });
});

afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const portOf = (instance: number): number => fleet.ports[instance % fleet.ports.length] ?? 0;

/** Accepted and settled calls of some subjects, in batches of changing size, until told to stop. */
async function hammer(
  writer: Writer,
  subjects: readonly { account: string; key: string }[],
  until_: () => boolean,
): Promise<void> {
  for (let batch = 0; !until_(); batch++) {
    const events: RequestEvent[] = [];
    for (let count = 0; count <= (batch * 7) % 40; count++) {
      const begun = accepted(subjects[(batch + count) % subjects.length]);
      events.push(begun, settled(begun));
    }
    await writer.append(events);
    // Silent instances are declared dead.
    if (batch % 20 === 0) await heartbeat(writer.client, writer.instance, null);
    await wait(batch % 5);
  }
}

/** The positions of the events in these messages. */
const positionsIn = (messages: readonly LiveMessage[]): number[] =>
  messages
    .flatMap(({ frames }) => frames)
    .flatMap((frame) => (frame.type === 'started' || frame.type === 'settled' ? [frame.position] : []));
const positionsOf = (events: readonly Placed[], key: string, after: number): number[] =>
  events.flatMap(({ event, position }) =>
    'key' in event && event.key === key && 'request' in event && position > after ? [position] : [],
  );

test('gets each event once and in order over forty connections to two servers under load', async () => {
  const mine = await fleet.createKey();
  const other = await fleet.createKey();
  const subjects = [mine, other].map(({ id }) => ({ account: fleet.accountId, key: id }));
  await using one = await openLivingWriter(fleet.store);
  await using two = await openLivingWriter(fleet.store);
  let isOver = false;
  const writing = Promise.all([hammer(one, subjects, () => isOver), hammer(two, subjects, () => isOver)]);
  const seen: number[] = [];
  let position: number | null = null;
  let begun = 0;
  for (let turn = 0; turn < 40; turn++) {
    const query: string = position === null ? '' : `after=${position}`;
    await using viewer = await lookOn({ port: portOf(turn), key: mine.secret, query });
    if (position === null) begun = viewer.position;
    else expect(viewer.frames('hello')[0]?.position).toBe(position);
    // Sometimes it leaves in the middle of what it missed.
    if (turn % 3 > 0) await wait((turn * 13) % 60);
    viewer.socket.terminate();
    await viewer.closed;
    expect(viewer.frames('gap')).toEqual([]);
    position = viewer.position;
    seen.push(...positionsIn(viewer.messages));
  }
  isOver = true;
  await writing;
  const log = await fleet.readLog();
  const head = log.at(-1)?.position ?? 0;
  await using last = await lookOn({ port: portOf(0), key: mine.secret, query: `after=${position}` });
  const expected = positionsOf(log, mine.id, begun);
  await last.sees(() => seen.length + positionsIn(last.messages).length >= expected.length);
  expect([...seen, ...positionsIn(last.messages)]).toEqual(expected);
  expect(expected.length).toBeGreaterThan(500);
  expect(head).toBeGreaterThan(expected.length);
});

test('a viewer that missed more than the resume limit gets a gap and continues from there', async () => {
  const { id, secret } = await fleet.createKey();
  await using writer = await openLivingWriter(fleet.store);
  const subject = { account: fleet.accountId, key: id };
  const before = (await fleet.readLog()).at(-1)?.position ?? 0;
  for (let count = 0; count < RESUME_EVENTS_MAX; count += 500) {
    await writer.append(
      Array.from({ length: 251 }, () => accepted(subject)).flatMap((begun) => [begun, settled(begun)]),
    );
  }
  await using viewer = await lookOn({ port: portOf(0), key: secret, query: `after=${before}` });
  await viewer.sees(({ frames }) => frames('gap').length === 1);
  const gap = viewer.frames('gap')[0]?.position ?? 0;
  expect(gap).toBe(viewer.position);
  const begun = accepted(subject);
  const position = await writer.append([begun, settled(begun)]);
  await viewer.sees(() => viewer.position >= position);
  expect(positionsIn(viewer.messages).filter((each) => each > gap)).toEqual([position - 1, position]);
});

test("a position beyond the log's head is answered by a gap", async () => {
  const { id, secret } = await fleet.createKey();
  await using writer = await openLivingWriter(fleet.store);
  await using viewer = await lookOn({ port: portOf(1), key: secret, query: 'after=999999999' });
  await viewer.sees(({ frames }) => frames('gap').length === 1);
  const begun = accepted({ account: fleet.accountId, key: id });
  const position = await writer.append([begun, settled(begun)]);
  await viewer.sees(() => viewer.position >= position);
  expect(positionsIn(viewer.messages)).toEqual([position - 1, position]);
});

test('the progress of a reply reaches viewers of other servers, at most four times a second', async () => {
  await using viewer = await lookOn({ port: portOf(1), key: fleet.key });
  const startedMs = performance.now();
  const running = fleet.chat(0, { body: { model: 's:tokens=150,every=10ms', stream: true, messages: [] } });
  await viewer.sees(({ frames }) => frames('progress').length >= 2);
  expect(viewer.frames('started')).toHaveLength(1);
  expect(viewer.frames('settled')).toEqual([]);
  const { requestId } = await running;
  await viewer.sees(({ frames }) => frames('settled').length === 1);
  const durationMs = performance.now() - startedMs;
  const progress = viewer.frames('progress');
  expect(new Set(progress.map(({ request }) => request))).toEqual(new Set([requestId]));
  expect(progress.map(({ output_tokens }) => output_tokens)).toEqual(
    progress.map(({ output_tokens }) => output_tokens).toSorted((left, right) => left - right),
  );
  expect(progress.length).toBeLessThanOrEqual(Math.ceil(durationMs / PROGRESS_EVERY_MS) + 1);
});

test('servers exchange no progress of requests without a viewer', async () => {
  const listener = await connectAs(fleet.store, 'auditor');
  const heard: string[] = [];
  listener.on('notification', ({ payload = '' }) => heard.push(payload));
  await listener.query('listen daybook_progress');
  const { secret: key } = await fleet.tenant('watched', {});
  const { secret: unwatched } = await fleet.tenant('unwatched', {});
  await using viewer = await lookOn({ port: portOf(1), key });
  const body = { model: 's:tokens=60,every=10ms', stream: true, messages: [] };
  const [watched] = await Promise.all([
    fleet.chat(0, { key, body }),
    fleet.chat(0, { key: unwatched, body }),
    fleet.chat(1, { key, body }),
  ]);
  await until(
    () => viewer.frames('settled').length,
    (count) => count === 2,
    'the endings',
  );
  await listener.end();
  const requests = heard.flatMap((payload) =>
    (JSON.parse(payload) as { calls: [string][] }).calls.map(([request]) => request),
  );
  // The one that runs where its viewer is needs no notification either.
  expect(new Set(requests)).toEqual(new Set([watched.requestId]));
});
