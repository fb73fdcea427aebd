import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { manifestName } from '#db/archive/manifest.ts';
import { AUDIT_COMMANDS } from '#db/audit/commands/program.ts';
import type { Evidence } from '#db/audit/verify/evidence.ts';
import { exportPart } from '#db/audit/export.ts';
import { verifyFiles } from '#db/audit/verify/files.ts';
import { codeOfStore, runCommands } from '#db/command-line/run.ts';
import { formatVerifierKey, type Verifier } from '#db/tlog/note.ts';
import { type AuditedLog, createAuditedLog } from '../../support/audit/audited-log.ts';
import { changeEvents } from '../../support/audit/change-lines.ts';
import { connectAs } from '../../support/log/log-writer.ts';

let log: AuditedLog;
let directory: string;
let key: Verifier;
beforeAll(async () => {
  log = await createAuditedLog();
  directory = await mkdtemp(path.join(tmpdir(), 'daybook-export-'));
  key = log.evidence.keys?.[0] as Verifier;
});
afterAll(async () => {
  await log?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

let made = 0;
async function exported(from: number, to: number): Promise<string> {
  const out = path.join(directory, String(made++));
  const client = await connectAs(log.database, 'auditor');
  try {
    const { unproved } = await exportPart(client, {
      from,
      to,
      directory: out,
      published: log.evidence.published,
      waitMs: 0,
    });
    expect(unproved).toBeNull();
    return out;
  } finally {
    await client.end();
  }
}

/** The range of the batches that hold a range. */
async function batchesOf(from: number, to: number): Promise<{ first: number; last: number }> {
  const { rows } = await log.superuser.query<{ first: number; last: number }>(
    `select min(last_position - event_count + 1)::integer as first, max(last_position)::integer as last
      from daybook.log_batch where last_position >= $1 and last_position - event_count < $2`,
    [from, to],
  );
  return rows[0] as { first: number; last: number };
}

/** The only file in a directory of an export. */
async function fileIn(out: string): Promise<string> {
  return (await readdir(out)).find((name) => name.endsWith('.log.zst')) as string;
}

const trusting = (): Evidence => ({ keys: [key] });

/** Runs an audit command in this process. */
async function run(...args: string[]) {
  let out = '';
  let err = '';
  const env = {
    DATABASE_URL: log.database.url,
    PUBLISH_DIR: path.join(log.directory, 'published'),
    DAYBOOK_DATA: log.directory,
  };
  const program = { name: 'audit', description: '', groups: AUDIT_COMMANDS, codeOf: codeOfStore };
  const code = await runCommands(program, args, {
    env,
    out: (text) => (out += text),
    err: (text) => (err += text),
  });
  return { code, out, err };
}

describe('audit export', () => {
  test('export: batches of any range are verified with the key alone, up to the signed root', async () => {
    for (const [from, to] of [
      [1, log.head],
      [1, 5],
      [3, 3],
      [20, 250],
      [256, 257],
      [257, 512],
      [300, log.head],
      [log.head, log.head],
    ] as const) {
      const { first, last } = await batchesOf(from, to);
      const out = await exported(from, to);
      expect(await fileIn(out)).toBe(`log-${first}-${last}.log.zst`);
      const report = await verifyFiles([out], trusting());
      expect(report).toMatchObject({
        findings: [],
        notes: [],
        first,
        head: last,
        events: last - first + 1,
        covered: last,
        trust: 'given',
      });
      expect(report.checkpoints).toBe(1);
    }
  });

  test('export: without a given key the keys of the manifest are trusted, and reported so', async () => {
    expect(await verifyFiles([await exported(20, 60)])).toMatchObject({
      findings: [],
      covered: (await batchesOf(20, 60)).last,
      trust: 'published',
    });
  });

  test('export: a key of another log leaves the export uncovered', async () => {
    const foreign: Verifier = { ...key, keyId: '00000000' };
    const report = await verifyFiles([await exported(20, 60)], { keys: [foreign] });
    expect(report).toMatchObject({ covered: 0 });
    expect(report.findings.map(({ problem }) => problem).join()).toContain('not signed by a known key');
  });

  test('export: a swapped manifest or a swapped file is detected', async () => {
    const one = await exported(20, 60);
    const other = await exported(20, log.head);
    const [file, theirs] = [await fileIn(one), await fileIn(other)];
    const swapped = path.join(directory, 'swapped');
    await mkdir(swapped);
    await copyFile(path.join(one, file), path.join(swapped, file));
    await copyFile(path.join(other, manifestName(theirs)), path.join(swapped, manifestName(file)));
    expect((await verifyFiles([swapped], trusting())).findings.length).toBeGreaterThan(0);
    await copyFile(path.join(other, theirs), path.join(swapped, file));
    await copyFile(path.join(one, manifestName(file)), path.join(swapped, manifestName(file)));
    expect((await verifyFiles([swapped], trusting())).findings.length).toBeGreaterThan(0);
  });

  test('export: consecutive files verify as one log, and a gap between files is an error', async () => {
    const [{ last }, { first }] = [await batchesOf(1, 100), await batchesOf(260, 260)];
    const parts = [
      await exported(1, last),
      await exported(last + 1, first - 1),
      await exported(first, log.head),
    ];
    expect(await verifyFiles(parts, log.evidence)).toMatchObject({
      findings: [],
      events: log.head,
      covered: log.head,
    });
    await expect(verifyFiles([parts[0] as string, parts[2] as string], log.evidence)).rejects.toThrow(
      `begins at position ${first}`,
    );
  });

  test('export: a changed event is located with and without published tiles', async () => {
    const out = await exported(1, log.head);
    const file = path.join(out, await fileIn(out));
    const lines = zstdDecompressSync(await readFile(file))
      .toString()
      .split('\n');
    // The header is the first line, and each batch has one before those of its events.
    const { rows } = await log.superuser.query<{ count: number }>(
      'select count(*)::integer from daybook.log_batch where last_position - event_count < 60',
    );
    const at = 60 + (rows[0]?.count as number);
    const { first } = await batchesOf(60, 60);
    const line = lines[at] as string;
    lines[at] = line.replace(/^(\(\d+,[^,]*,)/, '$1X');
    expect(lines[at]).not.toBe(line);
    await writeFile(file, zstdCompressSync(lines.join('\n')));
    expect((await verifyFiles([out], log.evidence)).findings[0]).toMatchObject({
      position: 60,
      table: 'log',
    });
    const { findings, covered } = await verifyFiles([out], trusting());
    expect(covered).toBe(0);
    expect(findings[0]).toMatchObject({ position: first });
    // An unreadable line is a finding; the batches before it are verified.
    lines[at] = 'nonsense';
    await writeFile(file, zstdCompressSync(lines.join('\n')));
    expect((await verifyFiles([out], log.evidence)).findings[0]).toMatchObject({ position: 60 });
    await writeFile(file, (await readFile(file)).subarray(0, 2_000));
    await expect(verifyFiles([out], log.evidence)).rejects.toThrow('damaged at its beginning');
  });

  test('export: the newest events are reported as not covered by a checkpoint yet', async () => {
    const client = await connectAs(log.database, 'auditor');
    await client.query(`select daybook.record_reading('test', 'events', 1, 2)`);
    const { unproved } = await exportPart(client, {
      from: log.head,
      to: log.head + 1,
      directory: path.join(directory, 'open'),
      published: log.evidence.published,
      waitMs: 0,
    });
    await client.end();
    expect(unproved).toContain('no checkpoint covers');
    expect(await verifyFiles([path.join(directory, 'open')], trusting())).toMatchObject({
      findings: [],
      covered: 0,
      checkpoints: 0,
    });
  });
});

describe('audit commands', () => {
  const LINE = (): string => formatVerifierKey(key);

  test('audit export and audit verify: print coverage, and record the reading in the log', async () => {
    const out = path.join(directory, 'by-command');
    const written = await run(
      'export',
      '--from',
      '20',
      '--to',
      '2100-01-01',
      '--published',
      log.evidence.published as string,
      '--out',
      out,
      '--to',
      '250',
    );
    expect(written).toMatchObject({ code: 0 });
    const { first, last } = await batchesOf(20, 250);
    const count = last - first + 1;
    expect(written.out).toContain(`${count} events, positions ${first} to ${last}`);
    expect((await readdir(out)).toSorted()).toEqual([
      `log-${first}-${last}.log.zst`,
      `log-${first}-${last}.manifest.json`,
    ]);
    const files = await run('verify', out, '--key', LINE());
    expect(files.out).toContain(`Verified: ${count} events`);
    expect(files).toMatchObject({ code: 0 });
    const database = await run('--json', 'verify', '--key', LINE());
    expect(database).toMatchObject({ code: 0 });
    expect(JSON.parse(database.out)).toMatchObject({ findings: [], trust: 'given', covered: log.head });
    const { rows } = await log.superuser.query(
      `select body::json->>'what' as what from daybook.events() where type = 82 order by position`,
    );
    expect(rows.map(({ what }) => what as string)).toEqual(['events', 'export', 'verify']);
  });

  test('audit verify: prints the first invalid position first and exits with 1', async () => {
    await log.superuser.query(
      `set session_replication_role = replica; ${changeEvents('position = 60', { model: "'another'" })};
        reset session_replication_role`,
    );
    const { code, out } = await run('verify');
    expect(code).toBe(1);
    expect(out).toContain('VERIFICATION FAILED: the first invalid position is 60.');
    expect(out).toContain('trust on first use');
    const nowhere = await run('verify', '--published', path.join(directory, 'nowhere'));
    expect(nowhere).toMatchObject({ code: 1 });
    expect(nowhere.err).toContain('does not exist');
  });
});
