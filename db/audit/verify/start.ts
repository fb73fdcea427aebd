import type { ClientBase } from 'pg';
import type { CheckpointNote, TrustedKeys } from '#db/audit/verify/evidence.ts';
import { hashesFromDirectory } from '#db/tlog/tiles.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import { AuditTree } from '#db/audit/verify/tree.ts';
import type { Start } from '#db/audit/verify/log-verifier.ts';
import { genesis } from '#db/log/chain.ts';
import { SHARD } from '#db/log/append.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { openCheckpoint } from '#db/tlog/checkpoint.ts';
import { hashesIn, MissingHashesError, NODE_BITS } from '#db/tlog/hashes.ts';
import { subtreesOf } from '#db/tlog/merkle.ts';
import { readPublished } from '#db/tlog/log-state.ts';

/** The ID of the log, from a checkpoint with a trusted signature, or else from the database itself. */
export function identify(
  stored: string,
  keys: TrustedKeys,
  checkpoints: readonly (CheckpointNote | null)[],
): { logId: string; direct: Finding[] } {
  for (const checkpoint of checkpoints) {
    try {
      const [, logId] =
        /^daybook\/([0-9a-f-]{36})(?:\/\d+)?$/.exec(
          openCheckpoint(checkpoint?.note ?? '', keys.verifiers).checkpoint.origin,
        ) ?? [];
      if (logId === undefined || logId === stored) continue;
      return {
        logId,
        direct: [
          {
            position: 1,
            table: 'install',
            problem: `the database states the log ID ${stored}, and its checkpoint is of log ${logId}`,
          },
        ],
      };
    } catch {
      // A checkpoint without a trusted signature is reported when it is compared.
    }
  }
  return { logId: stored, direct: [] };
}

/** Reads the state before the first event, as far as it is available. */
export async function readStart(
  client: ClientBase,
  logId: string,
  first: number,
  published: string | undefined,
  notes: string[],
): Promise<Start> {
  if (first === 1) return { first, chain: genesis(logId), tree: new AuditTree() };
  const before = db
    .selectFrom('daybook.log_batch')
    .select('chain')
    .where('shard', '=', SHARD)
    .where('last_position', '<', String(first))
    .orderBy('last_position', 'desc')
    .limit(1);
  const chain = (await rowOf(client, before))?.chain ?? null;
  notes.push(
    `the events before position ${first} are archived and were not read; pass --archive-dir to read them`,
  );
  return {
    first,
    chain,
    tree: await readTree(client, first - 1, published, notes),
  };
}

/** The tree before, from stored nodes and published tiles. Comparing the root later verifies them. */
async function readTree(
  client: ClientBase,
  size: number,
  published: string | undefined,
  notes: string[],
): Promise<AuditTree | null> {
  const subtrees = subtreesOf(0, size);
  try {
    const head = published === undefined ? null : await readPublished(published);
    const inTiles =
      published === undefined || head === null ? null : hashesFromDirectory(published, head.size);
    const tree = new AuditTree();
    const hashes: Buffer[] = [];
    for (const subtree of subtrees) {
      const read = subtree.level < NODE_BITS ? inTiles : hashesIn(client);
      if (read === null) throw new MissingHashesError('no tiles');
      hashes.push(...(await read([subtree])));
    }
    tree.appendAll(subtrees, hashes);
    return tree;
  } catch (error) {
    if (!(error instanceof MissingHashesError)) throw error;
    notes.push('without the archive the tree is incomplete, so no checkpoint could be compared');
    return null;
  }
}
