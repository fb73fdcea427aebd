import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readPublishedCheckpoint } from '#db/audit/verify/evidence.ts';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import { signCheckpoint } from '#db/tlog/checkpoint.ts';
import { signerOf } from '#db/tlog/note.ts';
import { createSigningKey } from '#db/tlog/signing-key.ts';
import { type AuditedLog, createAuditedLog, rechain } from '../../support/audit/audited-log.ts';
import { connectAs } from '../../support/log/log-writer.ts';

let log: AuditedLog;
beforeAll(async () => {
  log = await createAuditedLog();
});
afterAll(() => log?.[Symbol.asyncDispose]());

/** The first finding after these statements. */
const first = async (...statements: string[]) => (await log.after(statements)).findings[0];
/** A copy of an event with other columns, in JSON. */
const copyOf = (position: number, changes: string): string =>
  `insert into daybook.log select (jsonb_populate_record(l, jsonb_build_object(${changes}))).*
    from daybook.log l where position = ${position}`;
/** Moves all events from a position on by one, without violating the primary key. */
const shift = (from: number, by: number): string[] => [
  `update daybook.log set position = position + 100000 where position >= ${from}`,
  `update daybook.log set position = position - 100000 + ${by} where position > 100000`,
];

describe('verify of an unchanged log', () => {
  test('verify: a log covered by its newest checkpoint passes', async () => {
    const auditor = await connectAs(log.database, 'auditor');
    const report = await verifyDatabase(auditor, log.evidence);
    await auditor.end();
    expect(report).toMatchObject({
      findings: [],
      notes: [],
      first: 1,
      events: log.head,
      head: log.head,
      covered: log.head,
      trust: 'given',
    });
    // Five in the table, and the newest once more in the directory.
    expect(report.checkpoints).toBe(6);
  });

  test('verify: a log passes with an older checkpoint, published or own keys, as reported', async () => {
    const auditor = await connectAs(log.database, 'auditor');
    expect(await verifyDatabase(auditor, log.older)).toMatchObject({
      findings: [],
      trust: 'given',
      covered: log.head,
    });
    expect(await verifyDatabase(auditor, { published: log.evidence.published })).toMatchObject({
      findings: [],
      trust: 'published',
    });
    expect(await verifyDatabase(auditor)).toMatchObject({ findings: [], trust: 'log', covered: log.head });
    await auditor.end();
  });
});

describe('verify of a changed row', () => {
  test.each<[string, string, number]>([
    ['with another value', 'update daybook.log set instance = instance + 1 where position = 60', 60],
    ['with another request', 'update daybook.log set request = gen_random_uuid() where position = 60', 60],
    [
      'with another time',
      "update daybook.log set at = at + interval '1 microsecond' where position = 60",
      60,
    ],
    ['with another body', `update daybook.log set body = body || ' ' where position = 5`, 5],
    ['of an unknown type', 'update daybook.log set type = 77 where position = 60', 60],
    ['of another shard', 'update daybook.log set shard = 1 where position = 60', 60],
    [
      'with a value in a column that was null',
      'update daybook.log set cost_microusd = 1 where position = 2',
      2,
    ],
    ['with a time without end', "update daybook.log set at = 'infinity' where position = 60", 60],
    ['with a line break in a text', "update daybook.log set model = e'a\\nb' where position = 60", 60],
    [
      'with an empty text where there was none',
      "update daybook.log set error_code = '' where position = 60",
      60,
    ],
    [
      'with a space where there was none that other languages know',
      "update daybook.log set model = model || e'\\u00a0' where position = 60",
      60,
    ],
    ['that was removed', 'delete from daybook.log where position = 60', 60],
    ['that was moved', 'update daybook.log set position = position + 10000 where position = 60', 60],
    ['that was inserted before all others', copyOf(60, `'position', 0`), 0],
  ])('verify: a row %s is located at its position', async (_what, change, position) => {
    expect(await first(change)).toMatchObject({ position, table: 'log' });
  });

  test('verify: a row without a time or a type is located at its position', async () => {
    for (const column of ['at', 'type', 'instance']) {
      expect(
        await first(
          `alter table daybook.log alter ${column} drop not null`,
          `update daybook.log set ${column} = null where position = 60`,
        ),
      ).toMatchObject({ position: 60, table: 'log' });
    }
  });

  test('verify: an inserted, removed or swapped row is the first finding', async () => {
    expect(await first(copyOf(60, `'position', daybook.head(0::smallint) + 1`))).toMatchObject({
      position: log.head + 1,
    });
    expect(await first(...shift(60, 1), copyOf(50, `'position', 60`))).toMatchObject({
      position: 60,
      table: 'log',
    });
    expect(await first('delete from daybook.log where position = 60', ...shift(61, -1))).toMatchObject({
      position: 60,
      table: 'log',
    });
    const swap = [
      'update daybook.log set position = 100000 where position = 60',
      'update daybook.log set position = 60 where position = 61',
      'update daybook.log set position = 61 where position = 100000',
    ];
    expect(await first(...swap)).toMatchObject({ position: 60, table: 'log' });
  });

  test('verify: a changed row with a recomputed chain is located, also without tiles', async () => {
    const { superuser, older, olderSize } = log;
    await superuser.query('begin; set local session_replication_role = replica');
    try {
      await superuser.query("update daybook.log set account = 'Another1' where position = 60");
      await rechain(superuser, 60);
      const { findings } = await verifyDatabase(superuser, log.evidence);
      expect(findings[0]).toMatchObject({
        position: 60,
        table: 'log',
        problem: 'differs from the published leaf at this position',
      });
      // A complete rewrite has no valid stored checkpoints, which is all that the log alone shows.
      await superuser.query('delete from daybook.checkpoint; delete from daybook.log_node');
      const [changed, ...rest] = (await verifyDatabase(superuser, older)).findings;
      expect(changed).toMatchObject({ position: 1, to: olderSize, table: 'log' });
      const unaided = (await verifyDatabase(superuser)).findings;
      expect(new Set([...rest, ...unaided].map(({ table }) => table))).toEqual(new Set(['checkpoint']));
    } finally {
      await superuser.query('rollback');
    }
  });
});

describe('verify of a truncated log', () => {
  test.each([
    ['at the end of a batch', 0],
    ['within a batch', 3],
  ])('verify: a log truncated %s is detected from the first missing position on', async (_where, more) => {
    const { rows } = await log.superuser.query<{ last: string }>(
      `select last_position as last from daybook.log_batch where last_position < $1
          order by last_position desc limit 1`,
      [log.head - 20],
    );
    const last = Number(rows[0]?.last);
    const cut = [
      `delete from daybook.log where position > ${last + more}`,
      `delete from daybook.log_batch where last_position > ${last}`,
    ];
    const { findings } = await log.after(
      more === 0 ? [...cut, `delete from daybook.checkpoint where size > ${last}`] : cut,
    );
    expect(findings[0]).toMatchObject({ position: last + 1 });
    expect(findings).toContainEqual(
      expect.objectContaining({ position: last + more + 1, to: log.head, table: 'log' }),
    );
  });

  test('verify: a truncation after the older checkpoint is detected by the newest stored one', async () => {
    const { findings } = await log.after(
      [
        `delete from daybook.log where position > ${log.olderSize + 1}`,
        `delete from daybook.log_batch where last_position > ${log.olderSize + 1}`,
      ],
      log.older,
    );
    expect(findings.some(({ to }) => to === log.head)).toBe(true);
  });
});

describe('verify of the tables beside the log', () => {
  const batch = (column: string, value: string): string =>
    `update daybook.log_batch set ${column} = ${value} where last_position =
      (select min(last_position) from daybook.log_batch where last_position >= 60)`;

  test.each<[string, string[], string]>([
    ['log_batch', [batch('chain', "sha256('x')")], 'log_batch'],
    ['log_batch', [batch('batch_no', 'batch_no + 1000')], 'log_batch'],
    ['log_batch', [batch('instance', 'instance + 1000')], 'log_batch'],
    ['log_batch', [batch('at', "at + interval '1 second'")], 'log_batch'],
    ['log_batch', [batch('format', '2')], 'log_batch'],
    ['log_batch', [batch('event_count', 'event_count - 1')], 'log_batch'],
    ['log_batch', [batch('last_position', 'last_position - 1')], 'log_batch'],
    ['log_batch', [batch('shard', '1')], 'log_batch'],
    [
      'log_batch',
      [
        `delete from daybook.log_batch where last_position = (select min(last_position)
          from daybook.log_batch where last_position >= 60)`,
      ],
      'log_batch',
    ],
    [
      'stream_head',
      ["update daybook.stream_head set version = version + 1 where stream = 'log'"],
      'stream_head',
    ],
    ['stream_head', ["delete from daybook.stream_head where stream = 'log'"], 'stream_head'],
    ['stream_head', ["insert into daybook.stream_head values ('account/Nobody00', 3)"], 'stream_head'],
    ['stream_head', ["insert into daybook.stream_head values ('account-name/taken', 0)"], 'stream_head'],
    ['log_node', ["update daybook.log_node set hash = sha256('x') where number = 1"], 'log_node'],
    ['log_node', ['delete from daybook.log_node where number = 0'], 'log_node'],
    ['log_node', ["insert into daybook.log_node values (0, 2, 0, sha256('x'))"], 'log_node'],
    [
      'checkpoint',
      [
        `update daybook.checkpoint set note = replace(note, 'daybook', 'Daybook') where size =
          (select min(size) from daybook.checkpoint)`,
      ],
      'checkpoint',
    ],
    [
      'checkpoint',
      [
        `update daybook.checkpoint set size = size + 1 where size = (select min(size)
          from daybook.checkpoint)`,
      ],
      'checkpoint',
    ],
    [
      'checkpoint',
      ['update daybook.checkpoint set epoch = 2 where size = (select min(size) from daybook.checkpoint)'],
      'checkpoint',
    ],
    ['log_kept', ['insert into daybook.log_kept select * from daybook.log where position = 4'], 'log_kept'],
    [
      'log_partition',
      ['update daybook.log_partition set end_position = end_position + 1 where number = 0'],
      'log_partition',
    ],
    [
      'log_partition',
      [
        `update daybook.log_partition set end_position = end_position + 1 where number =
          (select max(number) from daybook.log_partition)`,
      ],
      'log_partition',
    ],
    ['install', ['update daybook.install set log_id = gen_random_uuid()'], 'install'],
  ])('verify: a changed row of %s is reported', async (_table, changes, table) => {
    const { findings } = await log.after(changes);
    expect(findings[0]).toMatchObject({ table });
    expect(findings.map((each) => each.table).filter((each) => each === 'log')).toEqual([]);
  });

  test('verify: a missing last batch is reported', async () => {
    const { findings } = await log.after([batch('last_position', '-last_position')]);
    expect(findings).toMatchObject([
      { position: 1, table: 'log_batch' },
      { position: 28, table: 'log_batch' },
    ]);
  });

  test('verify: a changed batch row is reported at its first position', async () => {
    const { rows } = await log.superuser.query<{ from: string }>(
      `select last_position - event_count + 1 as from from daybook.log_batch
        where last_position >= 60 order by last_position limit 1`,
    );
    for (const by of [log.evidence, log.older])
      expect((await log.after([batch('chain', "sha256('x')")], by)).findings).toMatchObject([
        { position: Number(rows[0]?.from), table: 'log_batch' },
      ]);
  });
});

describe('verify with invalid evidence', () => {
  const auditor = async (by: Parameters<typeof verifyDatabase>[1]) => {
    const client = await connectAs(log.database, 'auditor');
    try {
      return await verifyDatabase(client, by);
    } finally {
      await client.end();
    }
  };
  /** A key with this log's name that never signed it. */
  const stranger = async () => {
    const file = path.join(log.directory, `stranger-${Math.random()}`);
    createSigningKey(file);
    return signerOf((log.evidence.keys ?? [])[0]?.name ?? '', 'ed25519', await readFile(file, 'utf8'));
  };

  test('verify: a key that never signed this log covers nothing', async () => {
    const report = await auditor({ ...log.evidence, keys: [await stranger()] });
    expect(report).toMatchObject({ covered: 0, checkpoints: 0 });
    expect(report.findings.map(({ table }) => table)).toContain('published');
  });

  test('verify: a checkpoint signed by an unknown key is a finding', async () => {
    const signer = await stranger();
    const note = signCheckpoint({ origin: signer.name, size: 60, root: Buffer.alloc(32, 1) }, [signer]);
    const report = await auditor({ ...log.evidence, checkpoints: [{ from: 'forged', note }] });
    expect(report.findings).toMatchObject([
      {
        position: 60,
        table: 'forged',
        problem: expect.stringContaining('not signed by a known key of the log'),
      },
    ]);
    expect(
      (await auditor({ ...log.evidence, checkpoints: [{ from: 'garbage', note: 'x' }] })).findings,
    ).toMatchObject([{ table: 'garbage' }]);
  });

  test('verify: a changed published tile does not blame the log', async () => {
    const tile = path.join(log.directory, 'published/tile/0/000');
    const whole = await readFile(tile);
    const changed = Buffer.from(whole);
    changed[59 * 32] = (changed[59 * 32] as number) ^ 1;
    await writeFile(tile, changed);
    try {
      expect((await auditor(log.evidence)).findings).toMatchObject([{ position: 1, table: 'published' }]);
    } finally {
      await writeFile(tile, whole);
    }
  });

  test('verify: a changed published checkpoint is a finding', async () => {
    const file = path.join(log.directory, 'published/checkpoint');
    const note = (await readPublishedCheckpoint(path.join(log.directory, 'published'))).claim?.note ?? '';
    await writeFile(file, note.replace(`\n${log.head}\n`, `\n${log.head - 1}\n`));
    try {
      expect((await auditor(log.evidence)).findings).toMatchObject([
        { table: 'published', problem: expect.stringContaining('signature') },
      ]);
    } finally {
      await writeFile(file, note);
    }
  });
});
