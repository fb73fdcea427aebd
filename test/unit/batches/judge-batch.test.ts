import { expect, test } from 'vitest';
import { judgeBatch, readBatchState } from '#server/batches/judge-batch.ts';

/** How a batch stands, by its provider's reply. */

const DAY_MS = 86_400_000;
const WINDOW_MS = DAY_MS;
const polled = (body: object, status = 200) => ({
  status,
  state: readBatchState(Buffer.from(JSON.stringify(body))),
});

test.each(['validating', 'in_progress', 'finalizing', 'cancelling', 'unheard_of'])(
  'a batch that is %s is asked for again, less often with its age',
  (status) => {
    const next = [0, 100_000, 10_000_000].map((ageMs) => judgeBatch(polled({ status }), ageMs, WINDOW_MS));
    expect(next).toEqual([1_000, 10_000, 60_000].map((nextMs) => ({ kind: 'running', nextMs })));
  },
);

test.each(['completed', 'failed', 'expired', 'cancelled'])('a batch that is %s has ended', (status) => {
  const counts = { total: 3, completed: 2, failed: 1 };
  const body = { status, output_file_id: 'file-1', error_file_id: null, request_counts: counts };
  expect(judgeBatch(polled(body), 3 * DAY_MS, WINDOW_MS)).toMatchObject({
    kind: 'ended',
    state: { ended: status, output: 'file-1', error: null, completed: 2 },
  });
});

test('a batch that its provider does not know is lost after a minute', () => {
  const unknown = polled({ error: {} }, 404);
  expect(judgeBatch(unknown, 59_000, WINDOW_MS).kind).toBe('running');
  expect(judgeBatch(unknown, 60_000, WINDOW_MS).kind).toBe('lost');
});

test('a batch that never ends is lost a day after its window; no reply and an error lose none before', () => {
  for (const reply of [null, polled({ error: {} }, 500), polled({ status: 'in_progress' })]) {
    expect(judgeBatch(reply, 2 * DAY_MS - 1, WINDOW_MS).kind).toBe('running');
    expect(judgeBatch(reply, 2 * DAY_MS, WINDOW_MS).kind).toBe('lost');
  }
});
