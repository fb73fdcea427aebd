import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { openConsecutive } from '#db/archive/header.ts';
import type { Header } from '#db/archive/line.ts';
import { FILE_EXTENSION, type FileManifest, readFileManifest } from '#db/archive/manifest.ts';
import { readFilePages } from '#db/archive/read-file.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import {
  type Evidence,
  readKeyLines,
  NOTHING_PUBLISHED,
  readPublishedCheckpoint,
  TrustedKeys,
} from '#db/audit/verify/evidence.ts';
import { PublishedTiles } from '#db/audit/verify/published-leaves.ts';
import { hashesFromDirectory } from '#db/tlog/tiles.ts';
import { CheckpointVerifier, type ParsedCheckpoint } from '#db/audit/verify/checkpoints.ts';
import { batchOfFile } from '#db/audit/verify/batches.ts';
import { ManifestFactsCounter, type ManifestFacts } from '#db/audit/verify/manifest-facts.ts';
import type { Finding, Report } from '#db/audit/verify/report.ts';
import { Verification } from '#db/audit/verify/verification.ts';
import { Streams } from '#db/audit/verify/streams.ts';
import { AuditTree } from '#db/audit/verify/tree.ts';
import type { VerifyOptions } from '#db/audit/verify/database.ts';
import { genesis } from '#db/log/chain.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { subtreesOf } from '#db/tlog/merkle.ts';

/** A file with its header and its manifest. */
type OpenedFile = { file: string; header: Header; manifest: FileManifest | null };

/**
 * Verifies exported files offline: each by itself, each as the continuation of the one before it, and against
 * the auditor's evidence. The stages are those of {@link verifyDatabase}, with the headers and manifests of
 * the files in place of the tables.
 * @param names files, or directories of files, in any order.
 * @throws {StoreError} when none are named, one can't be read, or they are not consecutive files of one log.
 */
export async function verifyFiles(
  names: readonly string[],
  evidence: Evidence = {},
  options: VerifyOptions = {},
): Promise<Report> {
  const files = await openFiles(names);
  const [one, last] = [files[0] as OpenedFile, files.at(-1) as OpenedFile];
  const { log_id: logId, first_position: first } = one.header;
  const end = last.header.last_position;
  const proof = files.length === 1 ? one.manifest?.proof : undefined;
  const published =
    evidence.published === undefined ? NOTHING_PUBLISHED : await readPublishedCheckpoint(evidence.published);
  const keys = new TrustedKeys(
    evidence.keys,
    published.keys.length > 0 ? published.keys : readKeyLines(proof?.keys ?? []),
  );
  const checkpoints = new CheckpointVerifier(logId, keys);
  const publishedCheckpoint = published.claim && checkpoints.parse(published.claim, 'published');
  const exportCheckpoint = proof
    ? checkpoints.parse({ from: 'the checkpoint of the export', note: proof.checkpoint }, one.file)
    : null;
  const parsed = [
    publishedCheckpoint,
    exportCheckpoint,
    ...(evidence.checkpoints ?? []).map((claim) => checkpoints.parse(claim, claim.from)),
  ].filter((each) => each !== null);

  const tree = await treeBefore(first, proof?.before, evidence.published, publishedCheckpoint);
  const start = {
    first,
    chain: first === 1 ? genesis(logId) : fromHex(one.header.chain_before),
    tree,
  };
  const facts = new ManifestFactsCounter(
    files.map(({ header }) => ({ first: header.first_position, last: header.last_position })),
    fromHex(one.header.chain_before),
  );
  const streams = new Streams(first === 1);
  const verification = new Verification({
    logId,
    start,
    tiles: new PublishedTiles(evidence.published ?? null),
    published: evidence.published,
    keys,
    checkpoints,
    streams,
    facts,
    borders: files.map(({ header }) => header.last_position),
  });
  verification.expect(parsed.filter(({ checkpoint }) => checkpoint.size <= end));
  const direct: Finding[] = [];
  for (const named of files) {
    if (verification.isFull) break;
    direct.push(
      ...(await addFile(verification, named, (count) => options.onProgress?.(count, end - first + 1))),
    );
  }
  verification.finish(end);
  for (const { file, header, manifest } of files) {
    const own = facts.counted.get(header.first_position);
    if (own === undefined) continue;
    const wrong = manifestMismatch(header, manifest, own);
    if (wrong !== null)
      verification.tableFindings.push({
        position: header.first_position,
        table: path.basename(file),
        problem: wrong,
      });
  }
  await compareLongerCheckpoints(
    verification,
    checkpoints,
    parsed.filter(({ checkpoint }) => checkpoint.size > end),
    end,
    { exportCheckpoint, after: proof?.after, publishedCheckpoint, published: evidence.published },
  );
  const report = await verification.report(checkpoints.trustedHead(publishedCheckpoint), direct);
  return { ...report, covered: Math.min(report.covered, report.head) };
}

const fromHex = (text: string): Buffer => Buffer.from(text, 'hex');

async function openFiles(names: readonly string[]): Promise<OpenedFile[]> {
  const paths: string[] = [];
  for (const name of names) {
    const found = await stat(name).catch(() => null);
    if (found?.isDirectory())
      paths.push(
        ...(await readdir(name))
          .filter((each) => each.endsWith(FILE_EXTENSION))
          .map((each) => path.join(name, each)),
      );
    else paths.push(name);
  }
  const files: OpenedFile[] = [];
  for (const { file, header } of await openConsecutive(paths))
    files.push({ file, header, manifest: await readFileManifest(file).catch(() => null) });
  return files;
}

async function addFile(
  verification: Verification,
  { file, header, manifest }: OpenedFile,
  onEvents: (count: number) => void,
): Promise<Finding[]> {
  const digest = createHash('sha256');
  const table = path.basename(file);
  const found: Finding[] = [];
  try {
    const onBytes = (bytes: Buffer): void => void digest.update(bytes);
    for await (const { batches } of readFilePages(file, { onBytes })) {
      await verification.addPage(batches.map(batchOfFile));
      onEvents(verification.verifier.events);
    }
  } catch (error) {
    if (!(error instanceof ArchiveDamageError)) throw error;
    found.push({ position: verification.verifier.next, table, problem: 'it is unreadable from here on' });
  }
  const position = header.first_position;
  if (manifest === null) verification.tableFindings.push({ position, table, problem: 'it has no manifest' });
  else if (found.length === 0 && manifest.sha256 !== digest.digest('hex'))
    verification.tableFindings.push({
      position,
      table,
      problem: 'its SHA-256 is not the one in its manifest',
    });
  return found;
}

/** The first difference of a header or a manifest from the events; null if they match. */
function manifestMismatch(
  header: Header,
  manifest: FileManifest | null,
  facts: ManifestFacts,
): string | null {
  const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
  if (header.chain_before !== facts.chain_before)
    return 'the chain hash in its header differs from the file before it';
  if (manifest === null) return null;
  const truth = { ...header, ...facts, event_count: header.last_position - header.first_position + 1 };
  const wrong = Object.entries(truth).find(
    ([name, value]) => !same(value, manifest[name as keyof FileManifest]),
  );
  return wrong ? `the ${wrong[0]} in its manifest is wrong` : null;
}

/** The tree before the first file, from the proof of an export or from published tiles. */
async function treeBefore(
  first: number,
  before: readonly string[] | undefined,
  published: string | undefined,
  newest: ParsedCheckpoint | null,
): Promise<AuditTree | null> {
  const tree = new AuditTree();
  if (first === 1) return tree;
  const subtrees = subtreesOf(0, first - 1);
  try {
    if (before?.length === subtrees.length) tree.appendAll(subtrees, before.map(fromHex));
    else if (published !== undefined && newest !== null && newest.checkpoint.size >= first - 1)
      tree.appendAll(subtrees, await hashesFromDirectory(published, newest.checkpoint.size)(subtrees));
    else return null;
    return tree;
  } catch (error) {
    if (error instanceof MissingHashesError) return null;
    throw error;
  }
}

type LongerProofs = {
  exportCheckpoint: ParsedCheckpoint | null;
  after: readonly string[] | undefined;
  publishedCheckpoint: ParsedCheckpoint | null;
  published: string | undefined;
};

/** Compares checkpoints larger than the files, if the hashes of the events after them are available. */
async function compareLongerCheckpoints(
  verification: Verification,
  checkpoints: CheckpointVerifier,
  parsed: readonly ParsedCheckpoint[],
  end: number,
  by: LongerProofs,
): Promise<void> {
  const { tree } = verification.verifier;
  for (const each of parsed.toSorted((one, other) => one.checkpoint.size - other.checkpoint.size)) {
    const { size } = each.checkpoint;
    const subtrees = subtreesOf(end, size);
    const after = await hashesAfter(each, subtrees.length, end, by);
    if (tree === null || tree.size !== end || after === null) {
      checkpoints.compare(each, null);
      continue;
    }
    const full = tree.copy();
    full.appendAll(subtrees, after);
    checkpoints.compare(each, full.root());
  }
  if (checkpoints.uncompared > 0)
    checkpoints.notes.push(
      `${checkpoints.uncompared} checkpoint(s) could not be compared: they cover more events than ` +
        'these files',
    );
}

async function hashesAfter(
  parsed: ParsedCheckpoint,
  count: number,
  end: number,
  { exportCheckpoint, after, publishedCheckpoint, published }: LongerProofs,
): Promise<Buffer[] | null> {
  if (parsed === exportCheckpoint) return after?.length === count ? after.map(fromHex) : null;
  if (parsed !== publishedCheckpoint || published === undefined) return null;
  return hashesFromDirectory(
    published,
    parsed.checkpoint.size,
  )(subtreesOf(end, parsed.checkpoint.size)).catch((error: unknown) => {
    if (error instanceof MissingHashesError) return null;
    throw error;
  });
}
