import { expect, test } from 'vitest';
import { describeFileError, remedyFor } from '#db/file-errors.ts';
import { reasonIn } from '#db/postgres/embedded/reason.ts';

const failure = (code: string, syscall: string, path?: string): Error =>
  Object.assign(new Error(code), { code, syscall, ...(path === undefined ? {} : { path }) });

test('an error of the file system names the path, the reason and a remedy', () => {
  expect(describeFileError(failure('EROFS', 'open', '/data/pepper'))).toBe(
    '/data/pepper: the file system is read-only (EROFS, open). ' +
      'To fix it, mount it writable, or choose another directory',
  );
  expect(describeFileError(failure('ENOSPC', 'write'), '/data')).toBe(
    '/data: no space left on the device (ENOSPC, write). To fix it, free some: df -h /data',
  );
  expect(describeFileError(failure('EACCES', 'open', '/data/pepper'))).toContain('ls -ld /data;');
});

test.each([
  ['of another kind', failure('ENOENT', 'open', '/data/pepper')],
  ['of a socket', failure('EACCES', 'connect')],
  ['without a code', new Error('no')],
])('an error %s is left to others', (_, error) => {
  expect(describeFileError(error)).toBeNull();
});

test('the reason of a failed initdb is its error, not its last line', () => {
  const output = [
    '2026-01-01 00:00:00.000 UTC [7] FATAL:  could not write to file "base/1": No space left on device',
    'child process exited with exit code 1',
    'initdb: removing contents of data directory "/data/postgres.new"',
  ];
  const reason = 'could not write to file "base/1": No space left on device';
  expect(reasonIn(output)).toBe(reason);
  expect(remedyFor(reason, '/data')).toBe('. To fix it, free some: df -h /data');
  expect(reasonIn(['initdb: error: could not access directory "/data": Permission denied'])).toBe(
    'could not access directory "/data": Permission denied',
  );
});

test("the reason of a failed start contains PostgreSQL's detail and hint, and no reply to a probe", () => {
  const output = [
    '2026-01-01 00:00:00.000 UTC [7] FATAL:  lock file "postmaster.pid" already exists',
    '2026-01-01 00:00:00.000 UTC [7] HINT:  Is another postmaster (PID 7) running?',
    '2026-01-01 00:00:00.000 UTC [7] FATAL:  the database system is starting up',
  ];
  expect(reasonIn(output)).toBe(
    'lock file "postmaster.pid" already exists. Is another postmaster (PID 7) running?',
  );
  expect(reasonIn([])).toBeNull();
});
