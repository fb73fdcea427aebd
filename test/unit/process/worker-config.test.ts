import { expect, test } from 'vitest';
import { StoreError } from '#db/postgres/connect.ts';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';

test.each([
  ['REQUEST_ROWS_DAYS', '-1'],
  ['REQUEST_ROWS_DAYS', 'ninety'],
  ['REQUEST_ROWS_DAYS', '1.5'],
  ['REQUEST_ROWS_DAYS', '36501'],
  ['ARCHIVE_DROP', 'maybe'],
  ['LOG_LEVEL', 'loud'],
  ['DATABASE_URL', 'mysql://root:canary@host/db'],
])(
  'a worker does not start with a wrong %s (%s): one line names it and does not repeat it',
  (name, value) => {
    const start = (): unknown => readWorkerConfig({ [name]: value });
    expect(start).toThrow(StoreError);
    expect(start).toThrow(new RegExp(`^${name} is not usable: (?!.*canary).+\\.$`));
  },
);

test('a range error names the range', () => {
  expect(() => readWorkerConfig({ ARCHIVE_KEEP_PARTITIONS: '0' })).toThrow(
    'ARCHIVE_KEEP_PARTITIONS is not usable: must be a whole number from 1 to 1000000.',
  );
});

test('what is unset or empty has its default', () => {
  expect(readWorkerConfig({ REQUEST_ROWS_DAYS: '', LOG_LEVEL: undefined })).toMatchObject({
    REQUEST_ROWS_DAYS: 90,
    LOG_LEVEL: 'info',
    DAYBOOK_DATA: './data',
  });
  expect(readWorkerConfig({ REQUEST_ROWS_DAYS: '0' }).REQUEST_ROWS_DAYS).toBe(0);
});
