import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { basename } from 'node:path';
import { createZstdDecompress } from 'node:zlib';
import {
  type Header,
  Header as HeaderShape,
  type Line,
  type Link,
  parseLine,
  STREAM_AT,
} from '#db/archive/line.ts';
import { linesOf } from '#db/archive/lines.ts';
import { type Manifest, readManifest } from '#db/archive/manifest.ts';
import { type BatchRow, type Damage, genesis, type Leaf, leafOf, verifyBatches } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { BATCH_EVENTS_MAX, READ_BYTES } from '#db/archive/bounds.ts';

/** A file or a table does not match the hash chain. `position` is the first damaged one, as far as known. */
export class ArchiveDamageError extends StoreError {
  override name = 'ArchiveDamageError';
  readonly position: number;
  constructor(what: string, { position, problem }: Damage, cause?: unknown) {
    super(`${what} is damaged at position ${position}: ${problem}`, { cause });
    this.position = position;
  }
}

/** The verified content of a file, all derived from its events. */
export type Contents = Omit<Manifest, 'file' | 'made_at' | 'partition'> & {
  /** Null if the file is not a partition. */
  partition: number | null;
  /** Leaf hashes of batches across the borders: those in the file before, and those in this one. */
  leavesBefore: Buffer;
  openLeaves: Buffer;
  /** The last verified link, of the batch of the last event. */
  lastLink: Link;
};

/**
 * Verifies every event and every chain link of a file from the file alone. The link before its first event is
 * not verified here: see {@link continuityDamage}.
 * @param onEvents receives the lines of verified events, batch by batch.
 * @throws {ArchiveDamageError} at the first damage.
 * @throws {StoreError} when the file can't be read.
 */
export async function verifyFile(
  file: string,
  onEvents?: (lines: string[]) => Promise<void>,
  signal?: AbortSignal,
): Promise<Contents> {
  const digest = createHash('sha256');
  let bytes = 0;
  let reader: FileVerifier | undefined;
  /** Whether `onEvents` is running, whose errors are not the file's. */
  let isPassingOn = false;
  try {
    const stored = createReadStream(file, { highWaterMark: READ_BYTES, ...(signal ? { signal } : {}) });
    stored.on('data', (chunk) => {
      digest.update(chunk);
      bytes += chunk.length;
    });
    const text = stored.pipe(createZstdDecompress());
    // Without this an error of the file would leave the decompressor waiting forever.
    stored.on('error', (error) => text.destroy(error));
    for await (const lines of linesOf(text)) {
      for (const line of lines) {
        if (reader === undefined)
          reader = new FileVerifier(HeaderShape.parse(JSON.parse(line)), onEvents !== undefined);
        else reader.take(line);
      }
      if (onEvents && reader && reader.proved.length > 0) {
        isPassingOn = true;
        await onEvents(reader.proved.splice(0));
        isPassingOn = false;
      }
    }
    if (reader === undefined) throw new Error('empty');
    return { ...reader.finish(), bytes, sha256: digest.digest('hex') };
  } catch (error) {
    signal?.throwIfAborted();
    if (isPassingOn) throw error;
    if (error instanceof DamageFound) throw new ArchiveDamageError(basename(file), error.damage);
    if (isMissing(error)) throw new StoreError(`${file} can't be read`, { cause: error });
    throw new ArchiveDamageError(
      basename(file),
      { position: reader?.next ?? 0, problem: 'unreadable' },
      error,
    );
  }
}

/** Verifies a file with {@link verifyFile}, and that it matches its manifest. */
export async function verifyArchive(
  file: string,
  signal?: AbortSignal,
): Promise<{ contents: Contents; manifest: Manifest }> {
  const manifest = await readManifest(file);
  const contents = await verifyFile(file, undefined, signal);
  const wrong = manifestMismatch(contents, manifest);
  if (wrong !== null)
    throw new ArchiveDamageError(basename(file), {
      position: contents.first_position,
      problem: `its ${wrong} differs from its manifest`,
    });
  return { contents, manifest };
}

/** The first field in which a file differs from its manifest; null if it matches. */
export function manifestMismatch(contents: Contents, manifest: Manifest): string | null {
  const { leavesBefore: _before, openLeaves: _open, lastLink: _last, ...facts } = contents;
  const found = Object.entries(facts).find(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(manifest[name as keyof Manifest]),
  );
  return found?.[0] ?? null;
}

/** What a file must continue: the file before it, or the start of the log. */
export type Predecessor = Pick<Contents, 'log_id' | 'last_position' | 'chain_after' | 'openLeaves'>;

/** The predecessor of the first file of a log. */
export function logStart(logId: string): Predecessor {
  return {
    log_id: logId,
    last_position: 0,
    chain_after: { position: 0, chain: genesis(logId).toString('hex') },
    openLeaves: Buffer.alloc(0),
  };
}

/** The damage if a file does not continue its predecessor; null if it does. */
export function continuityDamage(before: Predecessor, next: Contents): Damage | null {
  const position = next.first_position;
  if (before.log_id !== next.log_id) return { position, problem: 'of another log' };
  if (before.last_position + 1 !== position)
    return { position, problem: `does not follow position ${before.last_position}` };
  const { chain_after: left, openLeaves } = before;
  const { chain_before: right, leavesBefore } = next;
  const joins =
    left.position === right.position && left.chain === right.chain && openLeaves.equals(leavesBefore);
  return joins ? null : { position, problem: 'its chain does not continue the one before' };
}

class DamageFound extends Error {
  readonly damage: Damage;
  constructor(damage: Damage) {
    super(damage.problem);
    this.damage = damage;
  }
}

function isMissing(error: unknown): boolean {
  return (
    (error as NodeJS.ErrnoException).code === 'ENOENT' || (error as NodeJS.ErrnoException).code === 'EACCES'
  );
}

/** Verifies the lines of a file in order. It buffers the events of one batch until the batch's line. */
class FileVerifier {
  readonly #header: Header;
  readonly #keepsLines: boolean;
  readonly #formats = new Set<string>();
  readonly #control = createHash('sha256');
  #controls = 0;
  #batches = 0;
  #pending: Leaf[];
  #lines: string[] = [];
  /** The last link so far, and the last one whose batch ends in the file. */
  #link: Link;
  #inner: Link;
  #openLeaves: Buffer = Buffer.alloc(0);
  #ended = false;
  /** The expected position of the next event. */
  next: number;
  /** Lines of verified events that were not passed on yet. */
  readonly proved: string[] = [];

  constructor(header: Header, keepsLines: boolean) {
    this.#header = header;
    this.#keepsLines = keepsLines;
    this.#pending = header.leaves_before.map((hash) => Buffer.from(hash, 'hex'));
    this.#link = this.#inner = header.chain_before;
    this.next = header.first_position;
    if (header.chain_before.position + this.#pending.length + 1 !== this.next)
      throw new Error('the header is inconsistent');
  }

  take(text: string): void {
    const line: Line = parseLine(text, this.#header.shard);
    if (this.#ended) throw this.#damage('data after the last batch');
    if ('event' in line) {
      if (this.next > this.#header.last_position) throw this.#damage('after the last position of the file');
      if (Number(line.event[1]) !== this.next) throw this.#damage('missing or out of order');
      if (this.#pending.length === BATCH_EVENTS_MAX) throw this.#damage('in a batch without a batch line');
      this.#pending.push(line.event);
      if (this.#keepsLines) this.#lines.push(text);
      this.next++;
    } else if ('batch' in line) this.#verifyBatch(line.batch);
    else {
      // Leaf hashes carry no positions, so all events before them must be there.
      if (this.next <= this.#header.last_position) throw this.#damage('missing');
      this.#pending.push(...line.leavesAfter);
    }
  }

  #verifyBatch(batch: BatchRow): void {
    const start = { position: this.#link.position, chain: Buffer.from(this.#link.chain, 'hex') };
    const damage = verifyBatches(start, [batch], this.#pending);
    if (damage) throw new DamageFound(damage);
    this.#batches++;
    this.#formats.add(batch.format);
    for (const leaf of this.#pending) {
      if (Buffer.isBuffer(leaf) || leaf[STREAM_AT] === null) continue;
      this.#control.update(leafOf(leaf));
      this.#controls++;
    }
    const position = Number(batch.lastPosition);
    this.#link = { position, chain: batch.chain.toString('hex') };
    if (position <= this.#header.last_position) this.#inner = this.#link;
    else {
      const own = this.#header.last_position - start.position;
      this.#openLeaves = Buffer.concat(this.#pending.slice(0, own).map((leaf) => leafOf(leaf)));
    }
    this.#ended = position >= this.#header.last_position;
    this.#pending = [];
    if (this.#keepsLines) this.proved.push(...this.#lines.splice(0));
  }

  finish(): Omit<Contents, 'bytes' | 'sha256'> {
    const { archive, log_id, shard, partition, first_position, last_position, chain_before, leaves_before } =
      this.#header;
    if (!this.#ended || this.next !== last_position + 1) throw this.#damage('missing');
    return {
      archive,
      log_id,
      shard,
      partition,
      first_position,
      last_position,
      chain_before,
      event_count: last_position - first_position + 1,
      batch_count: this.#batches,
      formats: [...this.#formats].toSorted(),
      chain_after: this.#inner,
      control_count: this.#controls,
      control_sha256: this.#control.digest('hex'),
      leavesBefore: Buffer.from(leaves_before.join(''), 'hex'),
      openLeaves: this.#openLeaves,
      lastLink: this.#link,
    };
  }

  #damage(problem: string): DamageFound {
    return new DamageFound({ position: this.next, problem });
  }
}
