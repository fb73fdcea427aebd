import { existsSync } from 'node:fs';
import type { Client } from 'pg';
import { fullLogSource } from '#db/audit/source/full-log.ts';
import { AuditTree, textOf } from '#db/audit/verify/tree.ts';
import { entriesOf, leafHash } from '#db/log/chain.ts';
import { inRange } from '#db/log/read.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { parseCheckpoint } from '#db/tlog/checkpoint.ts';
import { readNewestCheckpoint, withCosignatures } from '#db/tlog/checkpoint-store.ts';
import { encodeBundle } from '#db/tlog/entries.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import { parseNote } from '#db/tlog/note.ts';
import { writeBundle, writeCheckpointFile, writeTile } from '#db/tlog/publish-directory.ts';

/** The written directory: size and root of its checkpoint, and the number of entry bundles. */
export type WrittenTiles = { size: number; root: string; bundles: number };

/**
 * Writes the log up to its newest checkpoint as a directory of c2sp.org/tlog-tiles: checkpoint, keys, tiles
 * and entry bundles, which any monitor reads over a static web server. Archived events are read from the
 * files of the archive. The tree is computed from the entries, and compared with the checkpoint at the end.
 * @throws {StoreError} when the directory exists, no checkpoint is published yet, an archived event is not
 *   available, or the events do not match the checkpoint.
 */
export async function writeTlogTiles(
  client: Client,
  { directory, archive }: { directory: string; archive: string | undefined },
): Promise<WrittenTiles> {
  if (existsSync(directory)) throw new StoreError(`${directory} exists already; name a new directory`);
  const newest = await readNewestCheckpoint(client);
  if (newest === null) throw new StoreError('no checkpoint is published yet: the worker publishes the first');
  const source = await fullLogSource(client, archive);
  const { size, root } = parseCheckpoint(parseNote(newest.note).text);
  const writer = new TileWriter(directory);
  const range = { after: 0, upTo: size };
  for await (const batches of source.read(range))
    for (const batch of batches)
      for (const entry of inRange(entriesOf(batch), batch, range)) await writer.add(entry);
  if (!(await writer.finish()).equals(root))
    throw new StoreError(`the events do not match the checkpoint of size ${size}: run "audit verify"`);
  const keys = (await readLogState(client)).signing.keys.map(({ verifierKey }) => verifierKey);
  await writeCheckpointFile(
    directory,
    { note: withCosignatures(newest), publishedAt: newest.publishedAt },
    keys,
  );
  return { size, root: root.toString('base64'), bundles: Math.ceil(size / NODE_CHILDREN) };
}

/** Writes the tiles and bundles of a log whose entries come in order. */
class TileWriter {
  readonly #directory: string;
  readonly #tree = new AuditTree();
  #entries: string[] = [];
  #leaves: Buffer[] = [];
  /** The hashes of the last tile of each level above the leaves. */
  readonly #upper = new Map<number, Buffer[]>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  get size(): number {
    return this.#tree.size;
  }

  async add(entry: string): Promise<void> {
    const leaf = leafHash(entry);
    this.#entries.push(entry);
    this.#leaves.push(leaf);
    this.#tree.append(textOf(leaf));
    if (this.#leaves.length === NODE_CHILDREN) await this.#writeLeaves();
    for (const { level, number, hash: node } of this.#tree.completed.splice(0)) {
      const tile = this.#upper.get(level) ?? [];
      this.#upper.set(level, tile);
      tile.push(node);
      if (tile.length < NODE_CHILDREN) continue;
      await writeTile(this.#directory, level, Math.floor(number / NODE_CHILDREN), Buffer.concat(tile));
      this.#upper.set(level, []);
    }
  }

  /** Writes the partial tiles. @returns the root. */
  async finish(): Promise<Buffer> {
    const { size } = this.#tree;
    if (this.#leaves.length > 0) await this.#writeLeaves();
    for (const [level, tile] of this.#upper)
      if (tile.length > 0)
        await writeTile(
          this.#directory,
          level,
          Math.floor(size / NODE_CHILDREN ** (level + 1)),
          Buffer.concat(tile),
        );
    return this.#tree.root();
  }

  async #writeLeaves(): Promise<void> {
    const number = Math.floor((this.#tree.size - 1) / NODE_CHILDREN);
    const bundle = encodeBundle(this.#entries, number * NODE_CHILDREN + 1);
    await writeTile(this.#directory, 0, number, Buffer.concat(this.#leaves));
    await writeBundle(this.#directory, number, { bundle, count: this.#entries.length });
    [this.#entries, this.#leaves] = [[], []];
  }
}
