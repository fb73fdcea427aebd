import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { ApiError } from '#server/errors/api-error.ts';
import { FencingGuard } from '#db/instances/fencing-guard.ts';
import { ClientWriter, type Source } from '#server/relay/client-writer.ts';

/** A reply that a test writes step by step over a real connection, with the life in its own hands. */
async function withReply(use: (reply: Written) => Promise<void>): Promise<void> {
  const life = new FencingGuard();
  life.begin(performance.now());
  const made = Promise.withResolvers<ClientWriter>();
  const flow: string[] = [];
  const source: Source = { pause: () => void flow.push('pause'), resume: () => void flow.push('resume') };
  const server = createServer((_request, response) =>
    made.resolve(new ClientWriter({ response, requestId: 'id', extraHeaders: [], fencing: life }, source)),
  );
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const reply = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  try {
    await use({
      out: await made.promise,
      life,
      flow,
      // A pause that others have watched, as the life sees it.
      freeze: () => life.isValid(performance.now() + 60_000),
      read: async () => [(await reply).status, await (await reply).text()],
      first: async () => (await reply).status,
    });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

type Written = {
  out: ClientWriter;
  life: FencingGuard;
  flow: string[];
  freeze(): void;
  /** The whole reply: its status and body. */
  read(): Promise<[number, string]>;
  first(): Promise<number>;
};

const later = (): number => performance.now() + 61_000;
const sse = (out: ClientWriter): void => out.writeHead(200, 'text/event-stream');

test('output held while the instance was suspect is sent in order once it is confirmed valid', () =>
  withReply(async ({ out, life, flow, freeze, read }) => {
    sse(out);
    out.write('data: 1\n\n');
    freeze();
    out.write('data: 2\n\n');
    out.write('data: 3\n\n');
    expect([flow, out.isFull]).toEqual([['pause'], true]);
    life.confirm(later(), later());
    expect([flow, out.isFull]).toEqual([['pause', 'resume'], false]);
    out.write('data: 4\n\n');
    out.end();
    expect(await read()).toEqual([200, 'data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n']);
  }));

test('an end that was held back comes after everything that was held before it', () =>
  withReply(async ({ out, life, freeze, read }) => {
    freeze();
    sse(out);
    out.write('data: 1\n\n');
    out.end();
    life.confirm(later(), later());
    expect(await read()).toEqual([200, 'data: 1\n\n']);
  }));

test('of a dead instance nothing that was held ever goes out, and its owner can still report why', () =>
  withReply(async ({ out, life, freeze, first, read }) => {
    sse(out);
    out.write('data: 1\n\n');
    await first();
    freeze();
    out.write('data: 2\n\n');
    life.fence();
    out.write('data: 3\n\n');
    out.endWithError(new ApiError('store_unavailable'), false);
    const [, text] = await read();
    expect(text).toMatch(/^data: 1\n\n\n\ndata: \{"error":.*"store_unavailable".*\}\n\n$/);
  }));

test('a reply whose end was held reports the loss by itself, since no one else will', () =>
  withReply(async ({ out, life, freeze, first, read }) => {
    sse(out);
    out.write('data: 1\n\n');
    await first();
    freeze();
    out.write('data: [DONE]\n\n');
    out.end();
    life.fence();
    const [, text] = await read();
    expect(text).toMatch(/^data: 1\n\n\n\ndata: \{"error":.*"store_unavailable".*\}\n\n$/);
  }));

test('a whole reply that was held becomes a clean refusal when the instance is dead', () =>
  withReply(async ({ out, life, freeze, read }) => {
    freeze();
    out.writeHead(200, 'application/json', ['content-length', '2']);
    out.end(Buffer.from('{}'));
    life.fence();
    const [status, text] = await read();
    expect([status, JSON.parse(text)]).toMatchObject([503, { error: { code: 'store_unavailable' } }]);
  }));

test('a streamed reply of which nothing had gone out becomes one too', () =>
  withReply(async ({ out, life, freeze, read }) => {
    freeze();
    sse(out);
    out.flushHead();
    out.write('data: 1\n\n');
    life.fence();
    out.endWithError(new ApiError('store_unavailable'), false);
    expect((await read())[0]).toBe(503);
  }));

test('after the loss, under the next instance of the same process, an old reply stays torn', () =>
  withReply(async ({ out, life, freeze, first, read }) => {
    sse(out);
    out.write('data: 1\n\n');
    await first();
    freeze();
    out.write('data: 2\n\n');
    life.fence();
    life.begin(performance.now());
    out.write('data: 3\n\n');
    out.end();
    const [, text] = await read();
    expect(text).not.toMatch(/data: [23]/);
    expect(text).toContain('store_unavailable');
  }));

test('a refusal of our own is held while it is doubtful, and reported when it is known', () =>
  withReply(async ({ out, life, freeze, read }) => {
    freeze();
    out.sendError(new ApiError('upstream_disconnected'));
    life.confirm(later(), later());
    expect((await read())[0]).toBe(502);
  }));
