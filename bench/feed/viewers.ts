import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import type { LiveMessage } from '#server/contract/frames.ts';
import { Histogram, type Quantiles } from '../driver/histogram.ts';

/**
 * The viewers of the live feed's bench, in a process of their own. Its orders come over the IPC
 * channel: connect, start counting, report.
 */
export type Order =
  | { kind: 'connect'; port: number; secrets: string[]; viewers: number }
  | { kind: 'count' }
  | { kind: 'report' };

export type Watched = {
  /** From the event's time in the log to its frame at a viewer, of those whose messages were read. */
  delayUs: Quantiles;
  frames: number;
  /** Of all viewers together. */
  messages: number;
  bytes: number;
  gaps: number;
  /** Connections that ended by themselves. */
  lost: number;
};

/** To read every message of a thousand viewers would measure this process. */
const READERS_MAX = 10;
/** Connections that are being opened at a time. */
const OPENING_MAX = 20;

let delay = new Histogram();
let watched = { frames: 0, messages: 0, bytes: 0, gaps: 0, lost: 0 };
const sockets: WebSocket[] = [];

async function connect(port: number, secrets: readonly string[], viewers: number): Promise<void> {
  while (sockets.length < viewers) {
    const count = Math.min(OPENING_MAX, viewers - sockets.length);
    await Promise.all(
      Array.from({ length: count }, () =>
        open(port, secrets[sockets.length % secrets.length] ?? '', sockets.length < READERS_MAX),
      ),
    );
    await sleep(1);
  }
}

function open(port: number, secret: string, reads: boolean): Promise<void> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/live`, {
    headers: { authorization: `Bearer ${secret}` },
    perMessageDeflate: false,
  });
  sockets.push(socket);
  socket.on('message', (bytes: Buffer) => {
    watched.messages++;
    watched.bytes += bytes.length;
    if (reads) read(JSON.parse(bytes.toString()) as LiveMessage);
    else if (bytes.includes('"type":"gap"')) watched.gaps++;
  });
  socket.on('close', () => watched.lost++);
  return new Promise((resolve, reject) => {
    socket.once('message', () => resolve());
    socket.once('error', reject);
  });
}

function read({ frames }: LiveMessage): void {
  const nowMs = performance.timeOrigin + performance.now();
  for (const frame of frames) {
    if (frame.type === 'gap') watched.gaps++;
    if (frame.type !== 'started' && frame.type !== 'settled') continue;
    watched.frames++;
    delay.add((nowMs - Date.parse(frame.at)) * 1_000);
  }
}

process.on('message', (order: Order) => {
  switch (order.kind) {
    case 'connect':
      void connect(order.port, order.secrets, order.viewers).then(() => process.send?.('connected'));
      return;
    case 'count':
      delay = new Histogram();
      watched = { frames: 0, messages: 0, bytes: 0, gaps: 0, lost: 0 };
      return;
    case 'report':
      process.send?.({ delayUs: delay.quantiles(), ...watched } satisfies Watched, () => process.exit(0));
  }
});
