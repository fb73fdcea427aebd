import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';

/** What an upstream that only repeats answers to a model's name: these pieces, each in a write of its own. */
export type Recording = { status?: number; contentType: string; pieces: readonly Buffer[] };

export type ReplayUpstream = AsyncDisposable & {
  baseUrl: string;
  /** Sets what the model answers from now on. */
  record(model: string, recording: Recording): void;
};

/** An upstream that answers with given bytes and nothing else: for replies that were written down once. */
export async function startReplay(): Promise<ReplayUpstream> {
  const recordings = new Map<string, Recording>();
  const server = createServer({ noDelay: true }, (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const { model } = JSON.parse(Buffer.concat(parts).toString()) as { model: string };
      void play(response, recordings.get(model));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    record: (model, recording) => void recordings.set(model, recording),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function play(response: ServerResponse, recording: Recording | undefined): Promise<void> {
  if (!recording) return void response.writeHead(501).end();
  response.writeHead(recording.status ?? 200, { 'content-type': recording.contentType });
  for (const piece of recording.pieces) {
    response.write(piece);
    await turn();
  }
  response.end();
}
