import type { ClientBase } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { readWaitingMs } from '#db/log/lookup.ts';
import { encodeBundle, EntryTooLargeError } from '#db/tlog/entries.ts';
import { MissingHashesError, NODE_CHILDREN, readEntries, readLeaves } from '#db/tlog/hashes.ts';
import { NoteError, parseNote, type Signature, type Verifier, verifyNote } from '#db/tlog/note.ts';
import { consistencySpans, inclusionSpans, readSpans } from '#db/tlog/proof.ts';
import { readLogState } from '#db/tlog/log-state.ts';
import {
  insertCosignature,
  readCheckpointOfSize,
  readNewestCheckpoint,
  type StoredCheckpoint,
} from '#db/tlog/checkpoint-store.ts';
import { hashesFromDatabase, readDatabaseTile } from '#db/tlog/tiles.ts';
import type { ReadStore, Source } from '#server/read/store.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import { CHECKPOINT_CACHE_MS } from '#server/http/bounds.ts';

/** The newest checkpoint, and the age of the oldest event that it does not cover. */
export type PublishedHead = StoredCheckpoint & { waitingMs: number };

/** The inclusion proof of the event at a position. Hashes are base64. */
export type InclusionProof = { position: number; index: number; size: number; leaf: string; proof: string[] };

/** Proofs read no tables of a projection. */
const LOG: Source = { projection: 'requests', tables: [] };

const NONE = new ApiError('checkpoint_not_found');
const base64 = (hash: Buffer): string => hash.toString('base64');

/**
 * The public part of the log: its checkpoints, and inclusion and consistency proofs, which contain only
 * hashes. It is read over the connections of the dashboard, so that no relayed call waits for it.
 */
export class LogProofs {
  readonly #reads: ReadStore;
  readonly #witnesses: readonly Verifier[];
  readonly #keep: (of: StoredCheckpoint, signatures: readonly Signature[]) => Promise<void>;
  /** The cached checkpoint: concurrent and closely following requests share one query. */
  #head: { at: number; read: Promise<PublishedHead | ApiError> } | null = null;

  /**
   * @param witnesses the verifiers of accepted cosignatures.
   * @param keep stores the verified cosignatures of a checkpoint.
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

  /** The newest checkpoint, up to CHECKPOINT_CACHE_MS old. */
  async head(): Promise<PublishedHead | ApiError> {
    const now = performance.now();
    if (this.#head === null || now - this.#head.at > CHECKPOINT_CACHE_MS)
      this.#head = { at: now, read: this.#readHead() };
    const { read } = this.#head;
    const head = await read;
    if (head instanceof ApiError && this.#head?.read === read) this.#head = null;
    return head;
  }

  /** The verifier keys that have signed checkpoints, the newest last. */
  async keys(): Promise<string[] | ApiError> {
    const keys = await this.#read(async (client) =>
      (await readLogState(client)).signing.keys.map(({ verifierKey }) => verifierKey),
    );
    return keys instanceof ApiError || keys.length > 0 ? keys : NONE;
  }

  /** The consistency proof between the trees of two sizes, as base64. */
  async consistency(from: number, to: number): Promise<string[] | ApiError> {
    if (from > to)
      return new ApiError('invalid_value', {
        message: '"from" is larger than "to". Swap them.',
        param: 'from',
      });
    return this.#proved(to, async (client) =>
      (await readSpans(consistencySpans(from, to), hashesFromDatabase(client, to))).map(base64),
    );
  }

  /** The inclusion proof of an event in the tree of a size. */
  async inclusion(position: number, size: number): Promise<InclusionProof | ApiError> {
    if (position > size)
      return new ApiError('invalid_value', {
        message: 'The tree of that size does not contain that position.',
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

  /** The first `width` entries of a bundle: the texts of events, which only auditors may read. */
  async entries(number: number, width: number): Promise<Buffer | ApiError> {
    const first = number * NODE_CHILDREN;
    return this.#proved(first + width, async (client) => {
      try {
        return encodeBundle(await readEntries(client, first, first + width), first + 1);
      } catch (error) {
        if (!(error instanceof EntryTooLargeError)) throw error;
        return new ApiError('invalid_value', { message: `${error.message}.` });
      }
    });
  }

  /**
   * Adds the cosignatures of known witnesses to a checkpoint of this log. Idempotent.
   * @returns the error if no cosignature was added.
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
          message: 'The note is not a checkpoint of this log.',
        });
      return { stored, signatures };
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      return new ApiError('cosignature_rejected', { message: `The note is not valid: ${error.message}.` });
    }
  }

  /** Reads a proof for the tree of a size, which a checkpoint must cover. */
  async #proved<T>(size: number, work: (client: ClientBase) => Promise<T | ApiError>): Promise<T | ApiError> {
    let head = await this.head();
    // Another server may have served a newer checkpoint than the cached one.
    if (!(head instanceof ApiError) && size > head.size) {
      this.#head = null;
      head = await this.head();
    }
    if (head instanceof ApiError) return head;
    if (size > head.size)
      return new ApiError('invalid_value', {
        message: `The newest checkpoint has the size ${head.size}. There are no proofs for larger trees.`,
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

  async #read<T>(work: (client: ClientBase) => Promise<T | ApiError>): Promise<T | ApiError> {
    const read = await this.#reads.read(LOG, (client) =>
      work(client).catch((error: unknown) => {
        if (error instanceof MissingHashesError)
          return new ApiError('events_archived', {
            message:
              'The events needed for this proof are archived. ' +
              'Ask the operator for the published tiles, or for the files of the archive.',
          });
        throw error;
      }),
    );
    return read instanceof ApiError ? read : read.found;
  }
}

/**
 * Stores cosignatures over a connection of its own: the dashboard's connections are read-only, and a witness
 * sends one request every ten seconds.
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
