import type { ClientBase } from 'pg';
import { CopiedPage } from '#db/audit/source/copied-page.ts';

/**
 * The same connection for several who ask at once: each question is sent when the one before it was answered,
 * as pg wants it.
 */
export function serialized(client: ClientBase): ClientBase {
  let last: Promise<unknown> = Promise.resolve();
  const query = (...question: unknown[]): Promise<unknown> => {
    const answer = last.then(() => {
      const asked = (client.query as (...asked: unknown[]) => unknown).apply(client, question);
      return asked instanceof CopiedPage ? asked.result.then(() => asked) : asked;
    });
    last = answer.catch(() => undefined);
    return answer;
  };
  return { query } as unknown as ClientBase;
}
