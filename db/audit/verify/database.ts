import type { ClientBase } from 'pg';
import { findMissingCheckpoints, withoutStored } from '#db/audit/verify/checkpoint-history.ts';
import {
  type Evidence,
  NOTHING_PUBLISHED,
  readPublishedCheckpoint,
  TrustedKeys,
} from '#db/audit/verify/evidence.ts';
import { PublishedTiles } from '#db/audit/verify/published-leaves.ts';
import { serialized } from '#db/audit/source/serialized.ts';
import { archivedPages } from '#db/audit/verify/archived-pages.ts';
import {
  type CheckpointRow,
  CheckpointVerifier,
  type ParsedCheckpoint,
} from '#db/audit/verify/checkpoints.ts';
import { CONTROL_EVENTS, verifyArchivedControl } from '#db/audit/verify/control-events.ts';
import { CopyComparison } from '#db/audit/verify/copies.ts';
import { CORRECTIONS, countCorrectionsBefore } from '#db/audit/verify/corrections.ts';
import { NodeCheck } from '#db/audit/verify/nodes.ts';
import { type Page, pagesOf } from '#db/audit/verify/pages.ts';
import { ManifestFactsCounter } from '#db/audit/verify/manifest-facts.ts';
import type { Finding, Report } from '#db/audit/verify/report.ts';
import { Verification } from '#db/audit/verify/verification.ts';
import { identify, readStart } from '#db/audit/verify/start.ts';
import { Streams } from '#db/audit/verify/streams.ts';
import {
  checkPartitions,
  compareManifest,
  readSnapshot,
  findUnknownShards,
  type DatabaseSnapshot,
} from '#db/audit/verify/tables.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { firstPosition } from '#db/log/read.ts';

export type VerifyOptions = {
  /** Called after each page with the number of events verified, and the total. */
  onProgress?: (done: number, total: number) => void;
};

/**
 * Verifies the log of a database: every event, batch and checkpoint, and the tables beside it.
 *
 * The stages, from top to bottom:
 * 1. Evidence: the published checkpoint and keys are read before the log, so that they can't be ahead of
 * that.
 *    With the given keys and checkpoints they say which log this is, and which signatures count.
 * 2. Snapshot: the head, the stream heads, the partitions and the stored checkpoints are read in one
 * statement.
 *    Events appended later are not verified.
 * 3. Start: the chain hash and the tree before the first event. Without the archive's files a log that is
 *    archived in part starts at its first position in the database, and the control events of archived
 *    partitions are verified by themselves.
 * 4. Pages: the lines of each batch are hashed as they are for its chain hash; each line is validated, and
 *    its leaf hash is compared with the published one and joins the tree (`log-verifier.ts`). Checkpoints are
 *    compared as the tree reaches their sizes (`verification.ts`), stored nodes and the rows of control
 *    events and corrections as their page is read.
 * 5. Tables beside the log: stream heads, partitions and manifests are compared with the events.
 * 6. Checkpoints larger than the log show that it was truncated.
 * 7. Report: consequences of one change are separated from its root cause (`root-causes.ts`).
 *
 * It only reads, and can run within a transaction.
 * @param connection as the auditor, with a long statement timeout.
 * @throws {StoreError} when there is no log, or a partition was archived or restored in the meantime.
 */
export async function verifyDatabase(
  connection: ClientBase,
  evidence: Evidence = {},
  options: VerifyOptions = {},
): Promise<Report> {
  const client = serialized(connection);
  // Read first, so that it can't be ahead of the log.
  const published =
    evidence.published === undefined ? NOTHING_PUBLISHED : await readPublishedCheckpoint(evidence.published);
  const snapshot = await readSnapshot(client);
  const keys = new TrustedKeys(evidence.keys, published.keys);
  const { logId, direct } = identify(snapshot.logId, keys, [
    published.claim,
    ...(evidence.checkpoints ?? []),
  ]);
  const checkpoints = new CheckpointVerifier(logId, keys);
  const hasFullLog = snapshot.first === 1 || evidence.archive !== undefined;
  const start = await readStart(
    client,
    logId,
    hasFullLog ? 1 : snapshot.first,
    evidence.published,
    checkpoints.notes,
  );
  const partitions = checkPartitions(snapshot);
  const spans =
    partitions.length > 0
      ? []
      : snapshot.partitions.filter(({ isArchived, first }) => isArchived && first >= start.first);
  const facts = new ManifestFactsCounter(spans, start.chain);
  const streams = new Streams(true);
  const verification = new Verification({
    logId,
    start,
    tiles: new PublishedTiles(evidence.published ?? null),
    published: evidence.published,
    keys,
    checkpoints,
    streams,
    facts,
    borders: partitions.length > 0 ? [] : snapshot.partitions.map(({ last }) => last),
  });
  verification.tableFindings.push(...partitions, ...(await findUnknownShards(client)));
  const publishedCheckpoint = published.claim && checkpoints.parse(published.claim, 'published');
  const history = await withoutStored(client, published.history);
  verification.expect([
    publishedCheckpoint,
    ...history.map((note) => checkpoints.parse(note, 'published')),
    ...(evidence.checkpoints ?? []).map((claim) => checkpoints.parse(claim, claim.from)),
  ]);
  if (start.first > 1) {
    await verifyArchivedControl(
      client,
      snapshot.partitions.filter(({ last }) => last < start.first),
      verification,
    );
    const unread = await countCorrectionsBefore(client, start.first);
    if (unread > 0)
      checkpoints.notes.push(
        `${unread} corrections of archived events were not compared; pass --archive-dir to compare them`,
      );
  }

  const nodes = new NodeCheck(client, start.first);
  const controlRows = new CopyComparison(client, CONTROL_EVENTS, start.first);
  const correctionRows = new CopyComparison(client, CORRECTIONS, start.first);
  for await (const page of pagesFrom(
    client,
    start.first,
    snapshot,
    evidence.archive,
    verification.tableFindings,
  )) {
    verification.expect(page.checkpoints.map((row) => parseRow(checkpoints, row)));
    const { controls, corrections } = await verification.addPage(page.batches);
    await controlRows.compare(controls, verification.verifier.verifiedTo);
    await correctionRows.compare(corrections, verification.verifier.verifiedTo);
    await nodes.compareCompleted(verification.verifier.tree);
    options.onProgress?.(verification.verifier.events, snapshot.head - start.first + 1);
    if (verification.isFull) break;
  }
  if (verification.isFull) {
    verification.tableFindings.push(...controlRows.findings, ...correctionRows.findings);
    checkpoints.notes.push(
      `stopped at position ${verification.verifier.next - 1}: too many findings, so later events were ` +
        'not verified',
    );
  } else {
    verification.finish(snapshot.head);
    const builtTo = Math.max(snapshot.built, checkpoints.covered);
    const { wrong, missing } = await nodes.finish(verification.verifier.tree, snapshot.head, builtTo);
    verification.wrongNodes.push(...wrong);
    verification.missingNodes.push(...missing);
    verification.tableFindings.push(
      ...streams.compare(snapshot.streams, snapshot.head),
      ...(await controlRows.finish(snapshot.head, snapshot.controlBeyond)),
      ...(await correctionRows.finish(snapshot.head, snapshot.correctionBeyond)),
    );
    for (const partition of spans)
      verification.tableFindings.push(
        ...compareManifest(partition, facts.counted.get(partition.first), logId),
      );
    verification.expect(snapshot.beyond.map((row) => parseRow(checkpoints, row)));
    direct.push(...findTruncation(verification.takeRemaining(), snapshot.head, checkpoints));
    const missingOnes = await findMissingCheckpoints(client, {
      logId,
      signed: checkpoints.signed,
      signedFrom: verification.signedFrom,
      isPatient: direct.length === 0 && verification.tableFindings.length === 0,
    });
    verification.tableFindings.push(...missingOnes.findings);
    checkpoints.notes.push(...missingOnes.notes);
  }
  await requireSameFirst(client, snapshot);
  return verification.report(checkpoints.trustedHead(publishedCheckpoint), direct);
}

async function* pagesFrom(
  client: ClientBase,
  first: number,
  snapshot: DatabaseSnapshot,
  archive: string | undefined,
  beside: Finding[],
): AsyncGenerator<Page> {
  if (first < snapshot.first && archive !== undefined)
    yield* archivedPages(client, archive, snapshot, beside);
  yield* pagesOf(client, Math.max(first, snapshot.first) - 1, snapshot.head);
}

function parseRow(checkpoints: CheckpointVerifier, row: CheckpointRow): ParsedCheckpoint | null {
  return checkpoints.parse(
    { from: `the row of epoch ${row.epoch}, size ${row.size}`, note: row.note },
    'checkpoint',
    row,
  );
}

/** A finding if a trusted checkpoint is larger than the log. */
function findTruncation(
  larger: readonly ParsedCheckpoint[],
  head: number,
  checkpoints: CheckpointVerifier,
): Finding[] {
  const last = checkpoints.signedBeyondHead(larger).at(-1);
  if (last === undefined) return [];
  const { size } = last.checkpoint;
  return [
    {
      position: head + 1,
      to: size,
      table: 'log',
      problem: `the log ends at position ${head}, and was published up to position ${size} (${last.from})`,
    },
  ];
}

async function requireSameFirst(client: ClientBase, { first }: DatabaseSnapshot): Promise<void> {
  if ((await firstPosition(client)) !== first)
    throw new StoreError('a partition was archived or restored during the verification: retry');
}
