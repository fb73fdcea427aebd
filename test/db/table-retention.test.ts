import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { SCHEMA_FOLDER } from '#db/schema/files.ts';
import { RETENTION, retentionLine } from '#db/schema/retention.ts';

/** No table grows without a word about how far. */

/** Tables without rows, which are locked in place of what they are named after. */
const LOCKS = 'daybook_lock.';

test('each table of the schema has a retention, and each retention a table', async () => {
  const snapshot = await readFile(path.join(SCHEMA_FOLDER, 'snapshot.sql'), 'utf8');
  const tables = [...snapshot.matchAll(/^create table (?:if not exists )?(\S+)(?! partition of) \(/gm)]
    .map(([, name = '']) => name)
    .filter((name) => !name.startsWith(LOCKS));
  expect(tables.length).toBeGreaterThan(40);
  expect(Object.keys(RETENTION).toSorted()).toEqual(tables.toSorted());
});

test('docs/retention.md shows the retention of each table', async () => {
  const text = await readFile(path.join(import.meta.dirname, '../../docs/retention.md'), 'utf8');
  const lines = Object.entries(RETENTION).map(([name, retention]) => retentionLine(name, retention));
  const shown = text.split('\n').filter((line) => /^\| `(?:daybook|projection)\w*\.\w+` \|/.test(line));
  expect(shown).toEqual(lines);
});
