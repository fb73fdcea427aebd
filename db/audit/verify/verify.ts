import type { ClientBase } from 'pg';
import { type Evidence, readPublishedClaim, TrustedKeys } from '#db/audit/verify/evidence.ts';
import { LeafTiles } from '#db/audit/verify/evidence-tiles.ts';
import { serialized } from '#db/audit/source/serialized.ts';
import { archivedPages } from '#db/audit/verify/archived.ts';
import { type CheckpointRow, ClaimCheck, type Told } from '#db/audit/verify/claims.ts';
import { checkKeptAlone } from '#db/audit/verify/kept-checkpoint.ts';
import { NodeCheck } from '#db/audit/verify/nodes.ts';
import { type Page, pagesOf } from '#db/audit/verify/pages.ts';
import { PartCounter } from '#db/audit/verify/parts.ts';
import type { Finding, Report } from '#db/audit/verify/report.ts';
import { Session } from '#db/audit/verify/verify-session.ts';
import { identify, readStart } from '#db/audit/verify/start.ts';
import { Streams } from '#db/audit/verify/streams.ts';
import {
  checkPartitions,
  compareKept,
  compareManifest,
  readSnapshot,
  readStrays,
  type Snapshot,
} from '#db/audit/verify/tables.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { firstPosition } from '#db/log/read.ts';

export type VerifyOptions = {
  /** Told after each page how many events of how many were read. */
  onProgress?: (done: number, total: number) => void;
};

/**
 * Verifies the log of a database: every event, batch and checkpoint, and the tables beside it. Reads
 * only, and may be used within a transaction. What is appended meanwhile is not looked at.
 * @param connection as the auditor, with patience.
 * @throws {StoreError} when there is no log, or a part of it left the database meanwhile.
 */
export async function verifyDatabase(
  connection: ClientBase,
  evidence: Evidence = {},
  options: VerifyOptions = {},
): Promise<Report> {
  const client = serialized(connection);
  // What is outside is read first: it may not be ahead of what is read then.
  const published =
    evidence.published === undefined
      ? { claim: null, keys: [] }
      : await readPublishedClaim(evidence.published);
  const snapshot = await readSnapshot(client);
  const keys = new TrustedKeys(evidence.keys, published.keys);
  const { logId, direct } = identify(snapshot.logId, keys, [
    published.claim,
    ...(evidence.checkpoints ?? []),
  ]);
  const claims = new ClaimCheck(logId, keys);
  const isWhole = snapshot.first === 1 || evidence.archive !== undefined;
  const start = await readStart(
    client,
    logId,
    isWhole ? 1 : snapshot.first,
    evidence.published,
    claims.notes,
  );
  const partitions = checkPartitions(snapshot.partitions);
  const spans =
    partitions.length > 0
      ? []
      : snapshot.partitions.filter(({ isArchived, first }) => isArchived && first >= start.first);
  const parts = new PartCounter(spans, {
    position: start.first - 1 - start.leavesBefore.length,
    chain: (start.chain ?? Buffer.alloc(0)).toString('hex'),
  });
  const streams = new Streams(true);
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
  session.beside.push(...partitions, ...(await readStrays(client)));
  const publishedTold = published.claim && claims.tell(published.claim, 'published');
  session.tell([
    publishedTold,
    ...(evidence.checkpoints ?? []).map((claim) => claims.tell(claim, claim.from)),
  ]);
  if (start.first > 1)
    await checkKeptAlone(
      client,
      snapshot.partitions.filter(({ last }) => last < start.first),
      session,
    );

  const nodes = new NodeCheck(client, start.first, snapshot.built);
  const keptTo = Math.max(
    0,
    ...snapshot.partitions.filter(({ isArchived }) => isArchived).map(({ last }) => last),
  );
  let lookedTo = start.first - 1;
  for await (const page of pagesFrom(client, start.first, snapshot, evidence.archive, session.beside)) {
    session.tell(page.checkpoints.map((row) => tellRow(claims, row)));
    const controls = await session.take(page);
    if (lookedTo < keptTo)
      session.beside.push(...(await compareKept(client, controls, lookedTo, Math.min(page.upTo, keptTo))));
    lookedTo = page.upTo;
    await nodes.take(session.verifier.tree);
    options.onProgress?.(session.verifier.events, snapshot.head - start.first + 1);
    if (session.isFull) break;
  }
  if (session.isFull)
    claims.notes.push(
      `stopped at position ${session.verifier.next - 1}: so much is wrong that what is behind it was not read`,
    );
  else {
    session.finish(snapshot.head);
    session.nodes.push(...(await nodes.finish(session.verifier.tree, snapshot.head)));
    session.beside.push(
      ...streams.compare(snapshot.streams, snapshot.head),
      ...(await compareKept(client, [], keptTo, Number.MAX_SAFE_INTEGER)),
    );
    for (const partition of spans)
      session.beside.push(...compareManifest(partition, parts.counted.get(partition.first), logId));
    session.tell(snapshot.beyond.map((row) => tellRow(claims, row)));
    direct.push(...cutTail(session.left(), snapshot.head, claims));
  }
  await requireSameFirst(client, snapshot);
  return session.report(claims.headOf(publishedTold), direct);
}

async function* pagesFrom(
  client: ClientBase,
  first: number,
  snapshot: Snapshot,
  archive: string | undefined,
  beside: Finding[],
): AsyncGenerator<Page> {
  if (first < snapshot.first && archive !== undefined)
    yield* archivedPages(client, archive, snapshot, beside);
  yield* pagesOf(client, Math.max(first, snapshot.first) - 1, snapshot.head);
}

function tellRow(claims: ClaimCheck, row: CheckpointRow): Told | null {
  return claims.tell(
    { from: `the row of epoch ${row.epoch}, size ${row.size}`, note: row.note },
    'checkpoint',
    row,
  );
}

/** What checkpoints say that are of a longer log. */
function cutTail(left: readonly Told[], head: number, claims: ClaimCheck): Finding[] {
  const last = claims.beyond(left).at(-1);
  if (last === undefined) return [];
  const { size } = last.checkpoint;
  return [
    {
      position: head + 1,
      to: size,
      table: 'log',
      problem: `the log ends at position ${head}, and up to position ${size} it was published (${last.from})`,
    },
  ];
}

async function requireSameFirst(client: ClientBase, { first }: Snapshot): Promise<void> {
  if ((await firstPosition(client)) !== first)
    throw new StoreError(
      'a part of the log went to its archive, or came back, while it was verified: try again',
    );
}
