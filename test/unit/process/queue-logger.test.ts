import { expect, test, vi } from 'vitest';
import type { Logger } from '#db/diagnostics/logger.ts';
import { queueLogger } from '../../../worker/queue-logger.ts';

test('errors of the job queue are warnings, but not failed jobs nor its remark about our pool', () => {
  const log = { warn: vi.fn(), debug: vi.fn() };
  const queue = queueLogger(log as unknown as Logger);
  queue.error('lost the listener', { error: new Error('gone') });
  queue.error('task failed', { error: new Error('no'), failure: true });
  queue.warn('a pool smaller than the concurrency', { max: 4, concurrency: 8 });
  expect(log.warn.mock.calls).toEqual([[expect.objectContaining({}), 'job queue error']]);
  expect(log.debug).toHaveBeenCalledTimes(2);
});
