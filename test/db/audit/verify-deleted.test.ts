import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Evidence } from '#db/audit/verify/evidence.ts';
import { hourPath } from '#db/tlog/publish-directory.ts';
import { type AuditedLog, createAuditedLog } from '../../support/audit/audited-log.ts';

/** Tables beside the log that were emptied, or lost some of their rows. */

let log: AuditedLog;
beforeAll(async () => {
  log = await createAuditedLog();
});
afterAll(() => log?.[Symbol.asyncDispose]());

const CHECKPOINTS = 'delete from daybook.checkpoint';
const NODES = 'delete from daybook.log_node';
const NAMES = `delete from daybook.stream_head where stream like 'account-name/%'`;
/** The hour of a stored checkpoint, as if it had been published then. */
const publishedOn = (size: string, at: string): string =>
  `update daybook.log_batch set at = '${at}' where last_position ${size}`;

describe('verify of emptied tables', () => {
  test.each<[string, string[], [table: string, position: number][]]>([
    ['log_node', [NODES], [['log_node', 1]]],
    ['log_node, in part', [`${NODES} where number = 1`], [['log_node', 257]]],
    ['stream_head', ['delete from daybook.stream_head'], [['stream_head', 10]]],
    ['stream_head, of names only', [NAMES], [['stream_head', 10]]],
    ['log', ['delete from daybook.log'], [['log', 1]]],
    ['log_batch', ['delete from daybook.log_batch'], [['log_batch', 1]]],
    ['control_event', ['delete from daybook.control_event'], [['control_event', 4]]],
    ['log_partition', ['delete from daybook.log_partition'], [['log_partition', 1]]],
    [
      'log_partition, of the newest',
      ['delete from daybook.log_partition where number > 0'],
      [['log_partition', 50_000_000]],
    ],
    ['correction', ['delete from daybook.correction'], [['correction', 27]]],
  ])('verify: %s is reported, by the log alone', async (_table, statements, expected) => {
    for (const by of [log.evidence, log.older, {}]) {
      const { findings } = await log.after(statements, by);
      expect(findings.slice(0, 1).map(({ table, position }) => [table, position])).toEqual(expected);
    }
  });

  test.each<[string, string[]]>([
    ['checkpoint', [CHECKPOINTS]],
    ['checkpoint and log_node', [CHECKPOINTS, NODES]],
  ])('verify: %s is reported, by each kind of evidence and by the log alone', async (_table, statements) => {
    const { rows } = await log.superuser.query<{ position: number }>(
      `select min(position)::integer as position from daybook.events() where type = 80`,
    );
    for (const [by, size] of [
      [log.evidence, log.head],
      [log.older, log.olderSize],
      [{}, null],
    ] as [Evidence, number | null][]) {
      const { findings } = await log.after(statements, by);
      const own = findings.filter(({ table }) => table === 'checkpoint');
      expect(own.map(({ position }) => position)).toEqual([
        rows[0]?.position,
        ...(size === null ? [] : [size]),
      ]);
      // Without a checkpoint nothing says up to where the tree must be stored.
      if (statements.includes(NODES) && size !== null)
        expect(findings.map(({ table }) => table)).toContain('log_node');
    }
  });
});

describe('verify of a history of checkpoints with gaps', () => {
  const newest = `${CHECKPOINTS} where size = (select max(size) from daybook.checkpoint)`;

  test('verify: the newest checkpoint without its row is reported by the publish directory', async () => {
    expect((await log.after([newest])).findings).toMatchObject([{ table: 'checkpoint', position: log.head }]);
    expect((await log.after([newest], log.older)).findings).toEqual([]);
  });

  test('verify: the last checkpoint of an hour without its row is reported', async () => {
    const file = path.join(log.directory, 'published', hourPath(new Date('2026-01-01T00:10:00Z')));
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, log.older.checkpoints?.[0]?.note ?? '');
    try {
      expect((await log.after([])).findings).toEqual([]);
      const { findings } = await log.after([`${CHECKPOINTS} where size = ${log.olderSize}`]);
      expect(findings).toMatchObject([{ table: 'checkpoint', position: log.olderSize }]);
    } finally {
      await rm(path.dirname(file), { recursive: true });
    }
  });

  test('verify: a kept checkpoint may be thinned out, if a later one of its hour is stored', async () => {
    const thinned = `${CHECKPOINTS} where size <= ${log.olderSize}`;
    expect((await log.after([thinned], log.older)).findings).toEqual([]);
    // Events after it are of the next day, and so is the first checkpoint that is stored.
    const next = [thinned, publishedOn(`> ${log.olderSize + 1}`, '2126-01-02T00:00:00Z')];
    const { findings, notes } = await log.after(next, log.older);
    expect(findings.filter(({ table }) => table === 'checkpoint')).toMatchObject([
      { position: log.olderSize, table: 'checkpoint' },
    ]);
    expect(notes.join()).toContain('the stored checkpoints begin at size');
  });
});
