import type { ClientBase } from 'pg';

/** The same connection for several who ask at once: each question is sent when the one before it was answered, as pg wants it. */
export function inTurn(client: ClientBase): ClientBase {
  let last: Promise<unknown> = Promise.resolve();
  const query = (...question: unknown[]): Promise<unknown> => {
    const answer = last.then(() => (client.query as (...asked: unknown[]) => Promise<unknown>).apply(client, question));
    last = answer.catch(() => undefined);
    return answer;
  };
  return { query } as unknown as ClientBase;
}
