import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** The unit for systemd, by systemd's own checker, where one is installed. */

const CHECKER = '/usr/bin/systemd-analyze';
const UNIT = path.join(import.meta.dirname, '../../deploy/daybook.service');

test.skipIf(!existsSync(CHECKER))(
  'the unit has no unknown setting, and its process few privileges',
  async () => {
    const directory = await makeTestDirectory();
    try {
      const file = path.join(directory, 'daybook.service');
      // The checker wants the program to be there.
      writeFileSync(file, readFileSync(UNIT, 'utf8').replace('/usr/local/bin/daybook start', '/bin/true'));
      const check = (...args: string[]) => spawnSync(CHECKER, [...args, file], { encoding: 'utf8' });
      expect(check('verify')).toMatchObject({ status: 0, stderr: '' });
      expect(check('security', '--offline=true', '--threshold=20').status).toBe(0);
    } finally {
      await removeTestDirectory(directory);
    }
  },
);
