import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type ClientBase, DatabaseError } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readPublishedCheckpoint } from '#db/audit/verify/evidence.ts';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import { signCheckpoint } from '#db/tlog/checkpoint.ts';
import { signerOf } from '#db/tlog/note.ts';
import { createSigningKey } from '#db/tlog/signing-key.ts';
import { type AuditedLog, createAuditedLog, rechain } from '../../support/audit/audited-log.ts';
import { changeEvents, changeLines } from '../../support/audit/change-lines.ts';
import { connectAs } from '../../support/log/log-writer.ts';

let log: AuditedLog;
/** The batch of the events that are changed. */
let batch: { from: number; to: number };
beforeAll(async () => {
  log = await createAuditedLog();
  const { rows } = await log.superuser.query<{ from: number; to: number }>(
    `select (last_position - event_count + 1)::float8 as from, last_position::float8 as to
      from daybook.log_batch where last_position >= 61 order by last_position limit 1`,
  );
  batch = rows[0] as { from: number; to: number };
});
afterAll(() => log?.[Symbol.asyncDispose]());

/** The first finding after these statements. */
const first = async (...statements: string[]) => (await log.after(statements)).findings[0];
const OF_BATCH =
  'last_position = (select min(last_position) from daybook.log_batch where last_position >= 61)';
/** A copy of the row of a batch with another last position, in SQL. */
const copyTo = (position: string): string =>
  `insert into daybook.log select ${position}, at, event_count, instance, shard, events
    from daybook.log where ${OF_BATCH}`;

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

describe('verify of a changed line', () => {
  const NEIGHBOR = `(string_to_array(log.events, e'\\n'))[number + case position when 60 then 1 else -1 end]`;

  test.each<[string, string, number]>([
    ['with another request', changeEvents('position = 60', { request: 'gen_random_uuid()' }), 60],
    ['with another body', changeEvents('position = 5', { body: `body || ' '` }), 5],
    ['of an unknown type', changeEvents('position = 60', { type: '77' }), 60],
    ['with a value in a field that was null', changeEvents('position = 2', { cost_nanousd: '1' }), 2],
    ['with a line break in a text', changeEvents('position = 60', { model: `e'a\\nb'` }), 60],
    ['with an empty text where there was none', changeEvents('position = 60', { error_code: `''` }), 60],
    ['with a letter that is not ASCII', changeEvents('position = 60', { model: `model || e'\\u00a0'` }), 60],
    ['with a space before its end', changeLines('position = 60', `line || ' '`), 60],
    ['that is empty', changeLines('position = 60', `''`), 60],
    ['that was removed', changeLines('position = 60', 'null'), 60],
    ['that is there twice', changeLines('position = 60', `line || e'\\n' || line`), 61],
    [
      'after an inserted one',
      changeLines('position = 60', `replace(line, ',4', ',5') || e'\\n' || line`),
      60,
    ],
    ['that changed places with the next one', changeLines('position in (60, 61)', NEIGHBOR), 60],
  ])('verify: a line %s is located at its position', async (_what, change, position) => {
    expect(await first(change)).toMatchObject({ position, table: 'log' });
    // Without tiles the batch is known, or the line itself where it is no event.
    const [found] = (await log.after([change], log.older)).findings;
    expect(found).toMatchObject({ table: 'log' });
    expect(found?.position).toBeLessThanOrEqual(position);
    expect(found?.to ?? found?.position).toBeGreaterThanOrEqual(position);
  });
});

describe('verify of a changed row of the log', () => {
  test.each<[string, string[]]>([
    ['with another instance', [`update daybook.log set instance = instance + 1 where ${OF_BATCH}`]],
    ['with another time', [`update daybook.log set at = at + interval '1 microsecond' where ${OF_BATCH}`]],
    ['with a time without end', [`update daybook.log set at = 'infinity' where ${OF_BATCH}`]],
    ['with another count', [`update daybook.log set event_count = event_count - 1 where ${OF_BATCH}`]],
    ['of another shard', [`update daybook.log set shard = 1 where ${OF_BATCH}`]],
    ['that was moved', [`update daybook.log set last_position = last_position + 10000 where ${OF_BATCH}`]],
    ['that was moved by one', [`update daybook.log set last_position = last_position + 1 where ${OF_BATCH}`]],
    ['that was removed', [`delete from daybook.log where ${OF_BATCH}`]],
    ['without events', [`update daybook.log set events = '' where ${OF_BATCH}`]],
    ...['at', 'instance', 'event_count', 'events'].map((column): [string, string[]] => [
      `without its ${column}`,
      [
        `alter table daybook.log alter ${column} drop not null`,
        `update daybook.log set ${column} = null where ${OF_BATCH}`,
      ],
    ]),
  ])('verify: a row %s is located at its first position', async (_what, changes) => {
    for (const by of [log.evidence, log.older, {}])
      expect((await log.after(changes, by)).findings[0]).toMatchObject({
        position: batch.from,
        table: 'log',
      });
  });

  test('verify: a row that PostgreSQL can not read is located, and the others are verified', async () => {
    /** Fails for each page with the batch, as for a corrupted block. */
    const query = (asked: { name?: string; values?: unknown[] }, ...rest: unknown[]): Promise<unknown> => {
      const [, after, upTo] = (asked.values ?? []).map(Number) as [number, number, number];
      if (asked.name !== 'verify_log' || after >= batch.to || upTo < batch.to)
        return (log.superuser.query as (...question: unknown[]) => Promise<unknown>).call(
          log.superuser,
          asked,
          ...rest,
        );
      const error = new DatabaseError('invalid page in block 7', 0, 'error');
      error.code = 'XX001';
      return Promise.reject(error);
    };
    const report = await verifyDatabase({ query } as unknown as ClientBase, log.evidence);
    expect(report.findings).toMatchObject([
      { position: batch.from, to: batch.to, table: 'log', problem: expect.stringContaining('block 7') },
    ]);
    expect(report.events).toBe(log.head - (batch.to - batch.from + 1));
  });

  test('verify: an inserted row is the first finding, and blames no other one', async () => {
    expect(await first(copyTo('0'))).toMatchObject({ position: 0, table: 'log' });
    expect((await log.after([copyTo('last_position - 1')])).findings).toMatchObject([
      { position: batch.from - 1, table: 'log' },
    ]);
    const ahead = (await log.after([copyTo('daybook.head(0::smallint) + event_count')])).findings;
    expect(ahead).toMatchObject([{ position: log.head + 1, table: 'log_batch' }]);
  });

  test('verify: a changed line with a recomputed chain is located, also without tiles', async () => {
    const { superuser, older, olderSize } = log;
    await superuser.query('begin; set local session_replication_role = replica');
    try {
      await superuser.query(changeEvents('position = 60', { account: `'Another1'` }));
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
      `delete from daybook.log_batch where last_position > ${last}`,
      `delete from daybook.log where last_position > ${last}
        and last_position - event_count >= ${last + more}`,
      `update daybook.log set last_position = ${last + more}, event_count = ${more},
        events = array_to_string((string_to_array(events, e'\\n'))[1 : ${more}], e'\\n')
        where last_position > ${last}`,
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
        `delete from daybook.log where last_position > ${log.olderSize + 1}`,
        `delete from daybook.log_batch where last_position > ${log.olderSize + 1}`,
      ],
      log.older,
    );
    expect(findings.some(({ to }) => to === log.head)).toBe(true);
  });
});

describe('verify of the tables beside the log', () => {
  const change = (column: string, value: string): string =>
    `update daybook.log_batch set ${column} = ${value} where ${OF_BATCH}`;

  test.each<[string, string[], string]>([
    ['log_batch', [change('chain', "sha256('x')")], 'log_batch'],
    ['log_batch', [change('batch_no', 'batch_no + 1000')], 'log_batch'],
    ['log_batch', [change('instance', 'instance + 1000')], 'log_batch'],
    ['log_batch', [change('at', "at + interval '1 second'")], 'log_batch'],
    ['log_batch', [change('format', '2')], 'log_batch'],
    ['log_batch', [change('event_count', 'event_count - 1')], 'log_batch'],
    ['log_batch', [change('last_position', 'last_position - 1')], 'log_batch'],
    ['log_batch', [change('shard', '1')], 'log_batch'],
    ['log_batch', [`delete from daybook.log_batch where ${OF_BATCH}`], 'log_batch'],
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
    const { findings } = await log.after([change('last_position', '-last_position')]);
    expect(findings).toMatchObject([
      { position: 1, table: 'log_batch' },
      { position: batch.from, table: 'log_batch' },
    ]);
  });

  test('verify: a changed batch row is reported at its first position', async () => {
    for (const by of [log.evidence, log.older])
      expect((await log.after([change('chain', "sha256('x')")], by)).findings).toMatchObject([
        { position: batch.from, table: 'log_batch' },
      ]);
  });

  test.each<[string, string]>([
    ['at', `at + interval '1 microsecond'`],
    ['instance', 'instance + 1'],
    ['version', 'version + 1000'],
    ['shard', '1'],
    ['type', 'type + 1'],
    ['stream', `stream || 'x'`],
    ['account', `coalesce(account, '') || 'x'`],
    ['key', `coalesce(key, '') || 'x'`],
    ['line', `line || ' '`],
    ['line', `replace(line, 'command-line', 'Command-line')`],
    ['position', 'position + 10000'],
    ['position', 'position - 10000'],
  ])('verify: a control event with another %s than in the log is reported', async (column, value) => {
    for (const by of [log.evidence, {}]) {
      const { findings } = await log.after(
        [`update daybook.control_event set ${column} = ${value} where position = 5`],
        by,
      );
      expect(findings).toContainEqual(expect.objectContaining({ position: 5, table: 'control_event' }));
      expect(findings.filter(({ table }) => table !== 'control_event')).toEqual([]);
    }
  });

  test('verify: control events that are missing, or are not in the log, are reported', async () => {
    expect(
      (await log.after(['delete from daybook.control_event where position = 5'])).findings,
    ).toMatchObject([{ position: 5, table: 'control_event' }]);
    for (const position of [-7, 60, 100_000, 2 ** 60]) {
      const { findings } = await log.after([
        `insert into daybook.control_event select ${position}, at, instance, version + 1000, shard, type,
          stream, account, key, line from daybook.control_event where position = 5`,
      ]);
      expect(findings).toMatchObject([{ position, table: 'control_event' }]);
    }
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
