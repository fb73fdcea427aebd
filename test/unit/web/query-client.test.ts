import { QueryObserver } from '@tanstack/react-query';
import { afterEach, expect, test } from 'vitest';
import { queryClient } from '../../../web/lib/api/query-client.ts';

afterEach(() => queryClient.clear());

test('a change during the first fetch of a query is fetched afterwards', async () => {
  let stored = 'before';
  const fetches: PromiseWithResolvers<string>[] = [];
  const queryFn = async (): Promise<string> => {
    const read = stored;
    const fetch = Promise.withResolvers<string>();
    fetches.push(fetch);
    await fetch.promise;
    return read;
  };
  const observer = new QueryObserver(queryClient, { queryKey: ['limits'], queryFn });
  const unsubscribe = observer.subscribe(() => undefined);
  try {
    await expect.poll(() => fetches.length).toBe(1);
    stored = 'after';
    const invalidated = queryClient.invalidateQueries({ queryKey: ['limits'] });
    fetches[0]?.resolve('');
    await expect.poll(() => fetches.length).toBe(2);
    fetches[1]?.resolve('');
    await invalidated;
    expect(observer.getCurrentResult().data).toBe('after');
  } finally {
    unsubscribe();
  }
});
