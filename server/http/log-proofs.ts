import type { ClientBase } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { MissingHashesError, NODE_CHILDREN, readLeaves } from '#db/tlog/hashes.ts';
import { NoteError, parseNote, type Signature, type Verifier, verifyNote } from '#db/tlog/note.ts';
import { consistencySpans, inclusionSpans, readSpans } from '#db/tlog/proof.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import {
  insertCosignature,
  readCheckpointOfSize,
  readNewestCheckpoint,
  readWaitingMs,
  type StoredCheckpoint,
} from '#db/tlog/checkpoint-store.ts';
import { hashesFromDatabase, readDatabaseTile } from '#db/tlog/tiles.ts';
import type { ReadStore, Source } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import { CHECKPOINT_CACHE_MS } from '#server/http/bounds.ts';

/** The newest checkpoint, and for how long the oldest event has been there that it does not cover. */
export type PublishedHead = StoredCheckpoint & { waitingMs: number };

/** Where the event at a position stands in a tree. Hashes are base64. */
export type InclusionProof = { position: number; index: number; size: number; leaf: string; proof: string[] };

/** No projection's tables are asked. */
const LOG: Source = { projection: 'requests', tables: [] };

const NONE = new ApiError('checkpoint_not_found');
const base64 = (hash: Buffer): string => hash.toString('base64');

/**
 * What anybody may know of the log: its checkpoints and the proofs between them and its events, which
 * are hashes alone. It is read where people's figures are, so that no call waits for it.
 */
export class LogProofs {
  readonly #reads: ReadStore;
  readonly #witnesses: readonly Verifier[];
  readonly #keep: (of: StoredCheckpoint, signatures: readonly Signature[]) => Promise<void>;
  /** Everybody who asks within a moment is told the same, by one reading. */
  #head: { at: number; read: Promise<PublishedHead | ApiError> } | null = null;

  /**
   * @param witnesses whose cosignatures are taken.
   * @param keep stores those of a checkpoint, which were verified.
   */
  constructor(
    reads: ReadStore,
    witnesses: readonly Verifier[],
    keep: (of: StoredCheckpoint, signatures: readonly Signature[]) => Promise<void>,
  ) {
    this.#reads = reads;
    this.#witnesses = witnesses;
    this.#keep = keep;
  }

  /** The newest checkpoint, as of a moment ago. */
  async head(): Promise<PublishedHead | ApiError> {
    const now = performance.now();
    if (this.#head === null || now - this.#head.at > CHECKPOINT_CACHE_MS)
      this.#head = { at: now, read: this.#readHead() };
    const { read } = this.#head;
    const head = await read;
    if (head instanceof ApiError && this.#head?.read === read) this.#head = null;
    return head;
  }

  /** The lines of the keys that have signed checkpoints, the newest last. */
  async keys(): Promise<string[] | ApiError> {
    const keys = await this.#read(async (client) =>
      (await readLogState(client)).signing.keys.map(({ verifierKey }) => verifierKey),
    );
    return keys instanceof ApiError || keys.length > 0 ? keys : NONE;
  }

  /** What proves that the tree of one size begins with that of another, as base64. */
  async consistency(from: number, to: number): Promise<string[] | ApiError> {
    if (from > to)
      return new ApiError('invalid_value', {
        message: '"from" is more than "to", and no tree shrinks.',
        param: 'from',
      });
    return this.#proved(to, async (client) =>
      (await readSpans(consistencySpans(from, to), hashesFromDatabase(client, to))).map(base64),
    );
  }

  /** What proves that an event is in the tree of a size. */
  async inclusion(position: number, size: number): Promise<InclusionProof | ApiError> {
    if (position > size)
      return new ApiError('invalid_value', {
        message: 'A tree of that size does not reach to that position.',
        param: 'position',
      });
    return this.#proved(size, async (client) => {
      const proof = await readSpans(inclusionSpans(position - 1, size), hashesFromDatabase(client, size));
      const [leaf] = await readLeaves(client, position - 1, position);
      return { position, index: position - 1, size, leaf: base64(leaf as Buffer), proof: proof.map(base64) };
    });
  }

  /** The first `width` hashes of a tile, as c2sp.org/tlog-tiles numbers them. */
  async tile(level: number, number: number, width: number): Promise<Buffer | ApiError> {
    const size = (number * NODE_CHILDREN + width) * NODE_CHILDREN ** level;
    return this.#proved(size, async (client) =>
      Buffer.concat(await readDatabaseTile(client, size, level, number)),
    );
  }

  /**
   * Takes the cosignatures of known witnesses below a note which is one of this log's. To send them
   * again changes nothing.
   * @returns why none was taken.
   */
  async addCosignatures(cosigned: string): Promise<ApiError | null> {
    const read = await this.#verify(cosigned);
    if (read instanceof ApiError) return read;
    try {
      await this.#keep(read.stored, read.signatures);
    } catch (error) {
      if (isStoreFault(error)) return new ApiError('store_unavailable');
      throw error;
    }
    this.#head = null;
    return null;
  }

  async #verify(cosigned: string): Promise<{ stored: StoredCheckpoint; signatures: Signature[] } | ApiError> {
    try {
      const note = parseNote(cosigned);
      const names = new Set(
        verifyNote(note, this.#witnesses).map(({ verifier: { name, keyId } }) => `${name}+${keyId}`),
      );
      if (names.size === 0) return new ApiError('cosignature_rejected');
      const signatures = note.signatures.filter(({ name, keyId }) => names.has(`${name}+${keyId}`));
      const size = Number(note.text.split('\n')[1]);
      const stored = await this.#read((client) =>
        Number.isSafeInteger(size) ? readCheckpointOfSize(client, size) : Promise.resolve(null),
      );
      if (stored instanceof ApiError) return stored;
      if (stored === null || parseNote(stored.note).text !== note.text)
        return new ApiError('cosignature_rejected', {
          status: 409,
          message: 'That is no checkpoint of this log.',
        });
      return { stored, signatures };
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      return new ApiError('cosignature_rejected', { message: `That proves nothing: ${error.message}.` });
    }
  }

  /** Reads what is proved to a tree of a size, which must have been published. */
  async #proved<T>(size: number, work: (client: ClientBase) => Promise<T>): Promise<T | ApiError> {
    let head = await this.head();
    // Another server may have told of one that is newer than what this one read last.
    if (!(head instanceof ApiError) && size > head.size) {
      this.#head = null;
      head = await this.head();
    }
    if (head instanceof ApiError) return head;
    if (size > head.size)
      return new ApiError('invalid_value', {
        message: `The newest checkpoint has the size ${head.size}: beyond that nothing is proved.`,
      });
    return this.#read(work);
  }

  async #readHead(): Promise<PublishedHead | ApiError> {
    const read = await this.#read(async (client) => {
      const newest = await readNewestCheckpoint(client);
      return newest && { ...newest, waitingMs: await readWaitingMs(client, newest.size) };
    });
    return read ?? NONE;
  }

  async #read<T>(work: (client: ClientBase) => Promise<T>): Promise<T | ApiError> {
    const read = await this.#reads.read(LOG, (client) =>
      work(client).catch((error: unknown) => {
        if (error instanceof MissingHashesError)
          return new ApiError('events_archived', {
            message:
              'The events that it takes have left the database: ask the operator for the published tiles, or the files of the archive.',
          });
        throw error;
      }),
    );
    return read instanceof ApiError ? read : read.found;
  }
}

/**
 * Keeps cosignatures, over a connection of its own: the other ones for figures can't write, and a witness
 * comes every ten seconds.
 */
export async function storeCosignatures(
  store: Store,
  of: StoredCheckpoint,
  signatures: readonly Signature[],
): Promise<void> {
  const client = await connectRelay(store);
  try {
    for (const signature of signatures) await insertCosignature(client, of, signature);
  } finally {
    await closeClient(client);
  }
}
