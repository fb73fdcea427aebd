import { connect } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { MalformedMessage, readReply } from './wire/http-message.ts';

const TIMEOUT_MS = 120_000;
const KEPT_BYTES_MAX = 64 * 1024 ** 2;
const SHOWN_CHARACTERS = 200;

/**
 * Sends raw bytes to a port of the loopback interface and collects what comes back, as it is, until
 * one whole HTTP reply was read or the other side has closed. An iterable is sent piece by piece,
 * each in a packet of its own as far as the kernel plays along.
 * @throws {Error} when the connection is refused, or when there is no end within two minutes. A reset
 * once connected is an answer, not an error: what had arrived is returned.
 */
export function exchange(
  port: number,
  request: Buffer | string | Iterable<Buffer | string>,
): Promise<Buffer> {
  const isOne = typeof request === 'string' || Buffer.isBuffer(request);
  const pieces = Array.from(isOne ? [request] : request, (piece) => Buffer.from(piece));
  const method = Buffer.concat(pieces).toString('latin1').split(' ', 1)[0] ?? '';

  return new Promise((resolve, reject) => {
    const received: Buffer[] = [];
    let receivedBytes = 0;
    let isConnected = false;
    let reader: ReturnType<typeof readReply> | null = readReply(method, {
      head: () => undefined,
      body: () => undefined,
    });
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const timer = setTimeout(() => {
      const shown = Buffer.concat(received).toString('latin1', 0, SHOWN_CHARACTERS);
      finish(new Error(`no end of a reply within ${TIMEOUT_MS} ms, only ${JSON.stringify(shown)}`));
    }, TIMEOUT_MS);

    function finish(error?: Error): void {
      clearTimeout(timer);
      socket.destroy();
      if (error) reject(error);
      else resolve(Buffer.concat(received));
    }

    function isWhole(bytes: Buffer): boolean {
      try {
        reader?.push(bytes);
      } catch (error) {
        if (!(error instanceof MalformedMessage)) throw error;
        // What is no HTTP has no end but the connection's.
        reader = null;
      }
      return reader?.complete ?? false;
    }

    async function send(): Promise<void> {
      for (const piece of pieces) {
        await new Promise<void>((done) => {
          socket.write(piece, () => done());
        });
        await turn();
      }
    }

    socket.once('connect', () => {
      isConnected = true;
      void send();
    });
    socket.on('data', (bytes: Buffer) => {
      received.push(bytes);
      receivedBytes += bytes.length;
      if (receivedBytes > KEPT_BYTES_MAX)
        finish(new Error(`the reply is longer than ${KEPT_BYTES_MAX} bytes`));
      else if (isWhole(bytes)) finish();
    });
    socket.on('error', (error) => finish(isConnected ? undefined : error));
    socket.once('close', () => finish());
  });
}
