import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { zstdDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportPart } from '#db/audit/export.ts';
import { writeTlogTiles } from '#db/audit/tiles.ts';
import { namesByCode } from '#db/events/codes.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { formatVerifierKey, type Verifier } from '#db/tlog/note.ts';
import { type AuditedLog, createAuditedLog } from '../../support/audit/audited-log.ts';
import { connectAs } from '../../support/log/log-writer.ts';

/**
 * A verifier in Go, in `test/verifier-go`, that shares no code with Daybook: it knows the log from
 * docs/audit-format.md, and reads test vectors and directories of c2sp.org/tlog-tiles.
 */

const ROOT = path.join(import.meta.dirname, '../../..');
const FORMAT = path.join(ROOT, 'docs/audit-format.md');
/** Where installers put it; elsewhere it is found by PATH. */
const GO = ['/usr/local/go/bin/go', '/usr/bin/go', '/opt/homebrew/bin/go'].find((file) => existsSync(file));
const run = promisify(execFile);

if (GO === undefined) console.warn('Go is not installed: the verifier in test/verifier-go is not run');

describe.skipIf(GO === undefined)('a verifier in Go, written from the docs', () => {
  let log: AuditedLog;
  let directory: string;
  let program: string;
  let published: string;
  let key: string;

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'daybook-go-'));
    program = path.join(directory, 'verifier');
    published = path.join(directory, 'log');
    const env = {
      ...process.env,
      GOFLAGS: '-mod=mod',
      GOPROXY: 'off',
      GOTOOLCHAIN: 'local',
      CGO_ENABLED: '0',
    };
    const cwd = path.join(ROOT, 'test/verifier-go');
    const building = run(GO as string, ['build', '-o', program, '.'], { cwd, env });
    log = await createAuditedLog();
    key = formatVerifierKey(log.evidence.keys?.[0] as Verifier);
    const client = await connectAs(log.database, 'auditor');
    await writeTlogTiles(client, { directory: published, archive: undefined });
    await client.end();
    await building;
  }, 300_000);
  afterAll(async () => {
    await log?.[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const verify = async (...args: string[]): Promise<Record<string, unknown>> =>
    JSON.parse((await run(program, args)).stdout) as Record<string, unknown>;

  test('agrees with the test vectors of the docs', async () => {
    const found = await verify('vectors', FORMAT, path.join(ROOT, 'docs/audit-vectors.json'));
    expect(found).toEqual({ events: 7, batches: 3, roots: 8, bundled: 7 });
  });

  test('reads the same events from entry bundles as the database has, up to the signed root', async () => {
    const { rows } = await log.superuser.query<{ type: number; count: string; cost: string | null }>(
      'select type, count(*) as count, sum(cost_nanousd) as cost from daybook.events() group by type',
    );
    const names = namesByCode<string>(EVENT_CODES);
    const streams = await log.superuser.query('select from daybook.stream_head where version > 0');
    expect(await verify('log', FORMAT, published, key)).toMatchObject({
      size: log.head,
      types: Object.fromEntries(rows.map(({ type, count }) => [names.get(type), Number(count)])),
      cost_nanousd: Number(rows.reduce((sum, { cost }) => sum + BigInt(cost ?? 0), 0n)),
      streams: streams.rowCount,
    });
  });

  test('verifies the chain of an exported file, and names a batch that was changed', async () => {
    const client = await connectAs(log.database, 'auditor');
    const { file, manifest } = await exportPart(client, {
      from: 10,
      to: log.head - 10,
      directory,
      published: undefined,
      waitMs: 0,
    });
    await client.end();
    const text = path.join(directory, 'file');
    const lines = zstdDecompressSync(await readFile(file)).toString();
    await writeFile(text, lines);
    expect(await verify('file', FORMAT, text)).toEqual({
      first: manifest.first_position,
      last: manifest.last_position,
      batches: manifest.batch_count,
      chain: manifest.chain_after,
    });
    await writeFile(text, lines.replace(/\n\(100,(?=.*\n$)/s, '\n(101,'));
    await expect(verify('file', FORMAT, text)).rejects.toThrow(/after position \d+: its chain value is/);
  });

  test('names the position of a changed entry, and a tree that is not the signed one', async () => {
    const bundle = path.join(published, 'tile/entries/000');
    const bytes = await readFile(bundle);
    const at = bytes.indexOf('(0,60,') + '(0,60,'.length;
    const changed = Buffer.from(bytes);
    changed.write('9', at);
    await writeFile(bundle, changed);
    await expect(verify('log', FORMAT, published, key)).rejects.toThrow(
      'position 60: the entry does not have the hash',
    );
    await writeFile(bundle, bytes);
    const checkpoint = path.join(published, 'checkpoint');
    const note = await readFile(checkpoint, 'utf8');
    await writeFile(checkpoint, note.replace(`\n${log.head}\n`, `\n${log.head - 1}\n`));
    await expect(verify('log', FORMAT, published, key)).rejects.toThrow('the signature');
    await writeFile(checkpoint, note);
  });
});
