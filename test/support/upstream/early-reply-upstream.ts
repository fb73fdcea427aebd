import { createHash } from 'node:crypto';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { readMessage, requestFraming } from '../wire/http-message.ts';

/**
 * An upstream that answers before it has read: it applies the head of the first request of a
 * connection, answers it, and reads no further until it is asked. Answers to the requests behind it
 * are sent on demand, unseen. So bodies pile up in the sender, whose requests are long answered.
 */
export type HastyUpstream = AsyncDisposable & {
  baseUrl: string;
  /** Sends one more answer over the connection. */
  answer(): void;
  /** Reads on; resolves with the digests of the bodies, in their order, once there are `count`. */
  readOn(count: number): Promise<string[]>;
};

const BODY = JSON.stringify({
  id: 'chatcmpl-hasty',
  object: 'chat.completion',
  choices: [],
  usage: { prompt_tokens: 1, completion_tokens: 1 },
});
const ANSWER = [
  'HTTP/1.1 200 OK',
  'content-type: application/json',
  `content-length: ${BODY.length}`,
  '',
  BODY,
].join('\r\n');

export async function startHastyUpstream(): Promise<HastyUpstream> {
  let socket: Socket | null = null;
  const digests: string[] = [];
  let wanted = { count: Infinity, resolve: (_digests: string[]): void => {} };

  const server = createServer((connection) => {
    socket = connection;
    let hasAnswered = false;
    const nextReader = (): ReturnType<typeof readMessage> => {
      const hash = createHash('sha256');
      const current = readMessage({
        head(head) {
          if (!hasAnswered) {
            hasAnswered = true;
            connection.pause();
            connection.write(ANSWER);
          }
          return requestFraming(head);
        },
        body: (bytes) => void hash.update(bytes),
      });
      digestOf = () => hash.digest('hex');
      return current;
    };
    let digestOf = (): string => '';
    let reader = nextReader();
    connection.on('data', (bytes: Buffer) => {
      for (let rest = reader.push(bytes); reader.complete; rest = reader.push(rest)) {
        digests.push(digestOf());
        reader = nextReader();
        if (rest.length === 0) break;
      }
      if (digests.length >= wanted.count) wanted.resolve(digests);
    });
    connection.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    answer: () => void socket?.write(ANSWER),
    readOn(count) {
      return new Promise((resolve) => {
        wanted = { count, resolve };
        socket?.resume();
      });
    },
    async [Symbol.asyncDispose]() {
      socket?.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
