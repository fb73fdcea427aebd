import { createSocket } from 'node:dgram';
import { once } from 'node:events';

/**
 * A name server that knows one answer: the IPv4 addresses that it has at the moment, whatever is asked for.
 */
export type NameServer = AsyncDisposable & { port: number; addresses: string[] };

const HEADER_BYTES = 12;
const TYPE_A = 1;
/** A reply, authoritative, without error. */
const ANSWER_FLAGS = 0x8580;
/** The name of the question, by its place in the message. */
const SAME_NAME = 0xc00c;

export async function startNameServer(addresses: string[]): Promise<NameServer> {
  const socket = createSocket('udp4');
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const server: NameServer = {
    port: socket.address().port,
    addresses,
    async [Symbol.asyncDispose]() {
      await new Promise<void>((resolve) => socket.close(resolve));
    },
  };
  socket.on('message', (query, { port, address }) =>
    socket.send(answer(query, server.addresses), port, address),
  );
  return server;
}

function answer(query: Buffer, addresses: readonly string[]): Buffer {
  const nameEnd = query.indexOf(0, HEADER_BYTES) + 1;
  const question = query.subarray(HEADER_BYTES, nameEnd + 4);
  const told = query.readUInt16BE(nameEnd) === TYPE_A ? addresses : [];
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeUInt16BE(query.readUInt16BE(0), 0);
  [ANSWER_FLAGS, 1, told.length, 0, 0].forEach((value, index) => head.writeUInt16BE(value, 2 + 2 * index));
  const records = told.map((address) => {
    const record = Buffer.alloc(16);
    // Its class is the internet's, and it may be remembered for a second.
    [SAME_NAME, TYPE_A, 1, 0, 1, 4].forEach((value, index) => record.writeUInt16BE(value, 2 * index));
    address.split('.').forEach((part, index) => record.writeUInt8(Number(part), 12 + index));
    return record;
  });
  return Buffer.concat([head, question, ...records]);
}
