import type { ClientBase } from 'pg';

/**
 * The same connection for concurrent callers: each query is sent once the one before it was answered, as pg
 * requires.
 */
export function serialized(client: ClientBase): ClientBase {
  let last: Promise<unknown> = Promise.resolve();
  const query = (...question: unknown[]): Promise<unknown> => {
    const answer = last.then(() =>
      (client.query as (...asked: unknown[]) => unknown).apply(client, question),
    );
    last = answer.catch(() => undefined);
    return answer;
  };
  return { query } as unknown as ClientBase;
}
