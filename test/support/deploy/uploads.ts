import { request } from 'node:http';

/** Clients that still send a large body when the server refuses it. */

const BODY = Buffer.alloc(5_000_000, 'x');
const PARALLEL = 4;
export const UPLOADS = 8;

/** Sends a large body. Resolves with the status and the error's code, or with the fault of the connection. */
function upload(port: number, key: string): Promise<string> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const sent = request(
      { port, method: 'POST', path: '/v1/chat/completions', headers, agent: false },
      (reply) => {
        let text = '';
        reply.on('data', (bytes: Buffer) => (text += bytes.toString()));
        reply.on('end', () => resolve(`${reply.statusCode} ${/"code":"(\w+)"/.exec(text)?.[1]}`));
        reply.on('error', () => resolve('broken'));
      },
    );
    sent.on('error', (error: NodeJS.ErrnoException) => resolve(`${error.code}`));
    sent.end(BODY);
  });
}

/** What {@link UPLOADS} of them get. */
export async function uploads(port: number, key: string): Promise<string[]> {
  const all: string[] = [];
  while (all.length < UPLOADS)
    all.push(...(await Promise.all(Array.from({ length: PARALLEL }, () => upload(port, key)))));
  return all;
}
