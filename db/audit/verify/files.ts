import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Header } from '#db/archive/line.ts';
import { type FileManifest, readFileManifest } from '#db/archive/manifest.ts';
import { ArchiveDamageError } from '#db/archive/verify.ts';
import { type Evidence, readKeyLines, readPublishedClaim, TrustedKeys } from '#db/audit/verify/evidence.ts';
import { LeafTiles } from '#db/audit/verify/evidence-tiles.ts';
import { hashesFromDirectory } from '#db/tlog/tiles.ts';
import { ClaimCheck, type Told } from '#db/audit/verify/claims.ts';
import { type Piece, piecesOf } from '#db/audit/verify/file-chunks.ts';
import { PartCounter, type PartFacts } from '#db/audit/verify/parts.ts';
import type { Finding, Report } from '#db/audit/verify/report.ts';
import { Session } from '#db/audit/verify/verify-session.ts';
import { Streams } from '#db/audit/verify/streams.ts';
import { AuditTree } from '#db/audit/verify/tree.ts';
import type { VerifyOptions } from '#db/audit/verify/verify.ts';
import { genesis } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { subtreesOf } from '#db/tlog/merkle.ts';

/** A file with the part of the log that it says it has, and what lies beside it. */
type Named = { file: string; header: Header; manifest: FileManifest | null };

/**
 * Verifies exported files: each by itself, each as the continuation of the one before it, and by what
 * an auditor holds beside them. Nothing else is asked.
 * @param names files, or directories with such files, in any order.
 * @throws {StoreError} when there are none, one can't be read, or they are not parts of one log that follow
 * one another.
 */
export async function verifyFiles(
  names: readonly string[],
  evidence: Evidence = {},
  options: VerifyOptions = {},
): Promise<Report> {
  const files = await nameFiles(names);
  const [one, last] = [files[0] as Named, files.at(-1) as Named];
  const { log_id: logId, first_position: first } = one.header;
  const end = last.header.last_position;
  const proof = files.length === 1 ? one.manifest?.proof : undefined;
  const published =
    evidence.published === undefined
      ? { claim: null, keys: [] }
      : await readPublishedClaim(evidence.published);
  const keys = new TrustedKeys(
    evidence.keys,
    published.keys.length > 0 ? published.keys : readKeyLines(proof?.keys ?? []),
  );
  const claims = new ClaimCheck(logId, keys);
  const publishedTold = published.claim && claims.tell(published.claim, 'published');
  const proofTold = proof
    ? claims.tell({ from: 'the checkpoint of the export', note: proof.checkpoint }, one.file)
    : null;
  const told = [
    publishedTold,
    proofTold,
    ...(evidence.checkpoints ?? []).map((claim) => claims.tell(claim, claim.from)),
  ].filter((each) => each !== null);

  const tree = await treeBefore(first, proof?.before, evidence.published, publishedTold);
  const { chain_before: before, leaves_before: leavesBefore } = one.header;
  const start = {
    first,
    chain: first === 1 ? genesis(logId) : Buffer.from(before.chain, 'hex'),
    leavesBefore: leavesBefore.map(fromHex),
    tree,
  };
  const parts = new PartCounter(
    files.map(({ header }) => ({ first: header.first_position, last: header.last_position })),
    before,
  );
  const streams = new Streams(first === 1);
  const session = new Session({
    logId,
    start,
    tiles: new LeafTiles(evidence.published ?? null),
    published: evidence.published,
    keys,
    claims,
    streams,
    parts,
  });
  session.tell(told.filter(({ checkpoint }) => checkpoint.size <= end));
  const direct: Finding[] = [];
  for (const named of files) {
    if (session.isFull) break;
    direct.push(
      ...(await takeFile(session, named, named === last, (count) =>
        options.onProgress?.(count, end - first + 1),
      )),
    );
  }
  session.finish(end);
  let openLeaves: Buffer | null = null;
  for (const { file, header, manifest } of files) {
    const facts = parts.counted.get(header.first_position);
    if (facts === undefined) continue;
    const wrong = differenceOf(header, manifest, facts, openLeaves);
    if (wrong !== null)
      session.beside.push({ position: header.first_position, table: path.basename(file), problem: wrong });
    openLeaves = facts.openLeaves;
  }
  await proveRest(
    session,
    claims,
    told.filter(({ checkpoint }) => checkpoint.size > end),
    end,
    { proofTold, after: proof?.after, publishedTold, published: evidence.published },
  );
  const report = await session.report(claims.headOf(publishedTold), direct);
  return { ...report, covered: Math.min(report.covered, report.head) };
}

const fromHex = (text: string): Buffer => Buffer.from(text, 'hex');

async function nameFiles(names: readonly string[]): Promise<Named[]> {
  const paths: string[] = [];
  for (const name of names) {
    const found = await stat(name).catch(() => null);
    if (found?.isDirectory())
      paths.push(
        ...(await readdir(name))
          .filter((each) => each.endsWith('.ndjson.zst'))
          .map((each) => path.join(name, each)),
      );
    else paths.push(name);
  }
  const files: Named[] = [];
  for (const file of paths)
    files.push({
      file,
      header: await readHeader(file),
      manifest: await readFileManifest(file).catch(() => null),
    });
  files.sort((one, other) => one.header.first_position - other.header.first_position);
  if (files.length === 0)
    throw new StoreError('there is no file to verify: name exported files, or a directory of them');
  for (const [index, { file, header }] of files.entries()) {
    const before = files[index - 1];
    if (before && before.header.log_id !== header.log_id)
      throw new StoreError(`${file} is of another log than ${before.file}`);
    if (before && before.header.last_position + 1 !== header.first_position)
      throw new StoreError(
        `${file} begins at position ${header.first_position}, and ${before.file} ends at ${before.header.last_position}`,
      );
  }
  return files;
}

async function readHeader(file: string): Promise<Header> {
  try {
    for await (const { header } of piecesOf(file)) return header;
  } catch (error) {
    if (error instanceof ArchiveDamageError)
      throw new StoreError(`${file} is not an exported part of a log, or it is damaged at its beginning`, {
        cause: error,
      });
    throw error;
  }
  throw new StoreError(`${file} is not an exported part of a log`);
}

async function takeFile(
  session: Session,
  { file, header, manifest }: Named,
  isLast: boolean,
  onEvents: (count: number) => void,
): Promise<Finding[]> {
  const digest = createHash('sha256');
  const table = path.basename(file);
  const found: Finding[] = [];
  try {
    for await (const piece of piecesOf(file, (bytes) => digest.update(bytes))) {
      await takePiece(session, piece, isLast);
      onEvents(session.verifier.events);
    }
  } catch (error) {
    if (!(error instanceof ArchiveDamageError)) throw error;
    found.push({ position: session.verifier.next, table, problem: 'it can be read to here and no further' });
  }
  const position = header.first_position;
  if (manifest === null) session.beside.push({ position, table, problem: 'it has no manifest beside it' });
  else if (found.length === 0 && manifest.sha256 !== digest.digest('hex'))
    session.beside.push({ position, table, problem: 'it is not the file that its manifest tells of' });
  return found;
}

/** A batch that goes on in the next file comes with all of its rows there. */
async function takePiece(
  session: Session,
  { header, rows, batches, leavesAfter }: Piece,
  isLast: boolean,
): Promise<void> {
  const own = isLast
    ? batches
    : batches.filter(({ lastPosition }) => Number(lastPosition) <= header.last_position);
  await session.take(
    {
      rows,
      batches: own,
      unreadable: [],
      upTo:
        header.last_position < session.verifier.next + rows.length
          ? header.last_position
          : session.verifier.next + rows.length,
    },
    isLast ? leavesAfter : [],
  );
}

/** What a header or a manifest says that its events do not; null where there is nothing. */
function differenceOf(
  header: Header,
  manifest: FileManifest | null,
  { openLeaves: _open, ...facts }: PartFacts,
  leavesBefore: Buffer | null,
): string | null {
  const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
  if (!same(header.chain_before, facts.chain_before))
    return 'its header has another chain value than the file before it';
  if (leavesBefore !== null && leavesBefore.toString('hex') !== header.leaves_before.join(''))
    return 'its header has other leaves than the file before it';
  if (manifest === null) return null;
  const { archive: _archive, chain_before: _before, leaves_before: _leaves, ...said } = header;
  const truth = { ...said, ...facts, event_count: header.last_position - header.first_position + 1 };
  const wrong = Object.entries(truth).find(
    ([name, value]) => !same(value, manifest[name as keyof FileManifest]),
  );
  return wrong ? `its manifest has another ${wrong[0]}` : null;
}

/** The tree of what is before the first file, from what proves an export or from published tiles. */
async function treeBefore(
  first: number,
  before: readonly string[] | undefined,
  published: string | undefined,
  told: Told | null,
): Promise<AuditTree | null> {
  const tree = new AuditTree();
  if (first === 1) return tree;
  const subtrees = subtreesOf(0, first - 1);
  try {
    if (before?.length === subtrees.length) tree.appendAll(subtrees, before.map(fromHex));
    else if (published !== undefined && told !== null && told.checkpoint.size >= first - 1)
      tree.appendAll(subtrees, await hashesFromDirectory(published, told.checkpoint.size)(subtrees));
    else return null;
    return tree;
  } catch (error) {
    if (error instanceof MissingHashesError) return null;
    throw error;
  }
}

type RestProof = {
  proofTold: Told | null;
  after: readonly string[] | undefined;
  publishedTold: Told | null;
  published: string | undefined;
};

/** Compares checkpoints of a longer log than the files have, where what is behind them can be told. */
async function proveRest(
  session: Session,
  claims: ClaimCheck,
  told: readonly Told[],
  end: number,
  by: RestProof,
): Promise<void> {
  const { tree } = session.verifier;
  for (const each of told.toSorted((one, other) => one.checkpoint.size - other.checkpoint.size)) {
    const { size } = each.checkpoint;
    const subtrees = subtreesOf(end, size);
    const after = await hashesAfter(each, subtrees.length, end, by);
    if (tree === null || tree.size !== end || after === null) {
      claims.compare(each, null);
      continue;
    }
    const whole = tree.copy();
    whole.appendAll(subtrees, after);
    claims.compare(each, whole.root());
  }
  if (claims.unproved > 0)
    claims.notes.push(
      `${claims.unproved} checkpoint(s) could not be compared: they cover more than these files, and what else they cover is not at hand`,
    );
}

async function hashesAfter(
  told: Told,
  count: number,
  end: number,
  { proofTold, after, publishedTold, published }: RestProof,
): Promise<Buffer[] | null> {
  if (told === proofTold) return after?.length === count ? after.map(fromHex) : null;
  if (told !== publishedTold || published === undefined) return null;
  return hashesFromDirectory(
    published,
    told.checkpoint.size,
  )(subtreesOf(end, told.checkpoint.size)).catch((error: unknown) => {
    if (error instanceof MissingHashesError) return null;
    throw error;
  });
}
