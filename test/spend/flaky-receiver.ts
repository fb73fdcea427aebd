import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SpendEvent } from '#db/spend/spend-event.ts';
import type { Random } from '../chaos/random.ts';
import { isSigned } from '../support/servers/alert-receiver.ts';

/**
 * A receiver that fails at random, before or after it has taken a batch: by a status, or by a cut connection.
 * It recognizes repeated events by their ids, as receivers are
 * asked to.
 */
export type FlakyReceiver = AsyncDisposable & {
  url: string;
  /** The events taken, by their ids. */
  taken: Map<string, SpendEvent>;
  batches: number;
  /** Events that came once more. */
  repeated: number;
  /** Batches without a valid signature, and ids whose content changed. */
  faults: string[];
  /** Whether it takes nothing at all. */
  isDown: boolean;
};

/** How many of ten batches fail, in one way or another. */
const FAILING_OF_TEN = 4;

export async function startFlakyReceiver(random: Random, secret: string): Promise<FlakyReceiver> {
  const receiver = {
    taken: new Map<string, SpendEvent>(),
    batches: 0,
    repeated: 0,
    faults: [] as string[],
    isDown: false,
  };
  const take = (body: string): void => {
    for (const event of (JSON.parse(body) as { data: SpendEvent[] }).data) {
      const known = receiver.taken.get(event.id);
      if (known === undefined) receiver.taken.set(event.id, event);
      else if (JSON.stringify(known) === JSON.stringify(event)) receiver.repeated++;
      else receiver.faults.push(`${event.id} has changed`);
    }
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      receiver.batches++;
      const body = Buffer.concat(chunks).toString();
      if (!isSigned({ headers: request.headers, body }, secret)) receiver.faults.push('a signature');
      if (receiver.isDown)
        return void (random.below(2) === 0 ? response.writeHead(503).end() : request.socket.destroy());
      switch (random.below(10)) {
        case FAILING_OF_TEN - 4:
          return void response.writeHead(500).end();
        case FAILING_OF_TEN - 3:
          return void request.socket.destroy();
        case FAILING_OF_TEN - 2:
          take(body);
          return void request.socket.destroy();
        case FAILING_OF_TEN - 1:
          take(body);
          return void response.writeHead(502).end();
        default:
          take(body);
          return void response.writeHead(204).end();
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/spend`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}
