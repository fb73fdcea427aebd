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
import { linesOf } from '#db/archive/lines-of.ts';
import { type Manifest, readManifest } from '#db/archive/manifest.ts';
import { type BatchRow, type Damage, genesis, type Leaf, leafOf, verifyBatches } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** Events of a batch that are held until its line comes: many times what is ever appended at once. */
const BATCH_EVENTS_MAX = 1_000_000;
/** Compressed bytes that are read at once: some hundred lines, which take a millisecond or two. */
const READ_BYTES = 32 * 1024;

/** A file or a table does not hold what the chain says: where, as far as it can be told. */
export class ArchiveDamageError extends StoreError {
  override name = 'ArchiveDamageError';
  readonly position: number;
  constructor(what: string, { position, problem }: Damage, cause?: unknown) {
    super(`${what} is damaged at position ${position}: ${problem}`, { cause });
    this.position = position;
  }
}

/** What a file was found to hold; all of it follows from its events, which agree with their chain. */
export type Contents = Omit<Manifest, 'file' | 'made_at' | 'partition'> & {
  /** Null where it is no partition's. */
  partition: number | null;
  /** Leaf hashes, of the file before and of this one, in batches that lie across the borders. */
  leavesBefore: Buffer;
  openLeaves: Buffer;
  /** The last link that it proves, of the batch that its last event is in. */
  lastLink: Link;
};

/**
 * Reads a file from the disk and checks every event and every link of the chain in it, from the file
 * alone. The link before its first event is taken on trust: see {@link breach}.
 * @param onEvents gets the lines of events that were found good, batch by batch.
 * @throws {ArchiveDamageError} at the first thing that is wrong.
 * @throws {StoreError} when there is no such file.
 */
export async function verifyFile(
  file: string,
  onEvents?: (lines: string[]) => Promise<void>,
  signal?: AbortSignal,
): Promise<Contents> {
  const digest = createHash('sha256');
  let bytes = 0;
  let reader: Reader | undefined;
  /** Whether it is others who fail, and not the file. */
  let taking = false;
  try {
    const stored = createReadStream(file, { highWaterMark: READ_BYTES, ...(signal ? { signal } : {}) });
    stored.on('data', (chunk) => {
      digest.update(chunk);
      bytes += chunk.length;
    });
    const text = stored.pipe(createZstdDecompress());
    // What breaks the one has to end the other, which would wait for ever.
    stored.on('error', (error) => text.destroy(error));
    for await (const lines of linesOf(text)) {
      for (const line of lines) {
        if (reader === undefined)
          reader = new Reader(HeaderShape.parse(JSON.parse(line)), onEvents !== undefined);
        else reader.take(line);
      }
      if (onEvents && reader && reader.proved.length > 0) {
        taking = true;
        await onEvents(reader.proved.splice(0));
        taking = false;
      }
    }
    if (reader === undefined) throw new Error('empty');
    return { ...reader.finish(), bytes, sha256: digest.digest('hex') };
  } catch (error) {
    signal?.throwIfAborted();
    if (taking) throw error;
    if (error instanceof Damaged) throw new ArchiveDamageError(basename(file), error.damage);
    if (isMissing(error)) throw new StoreError(`${file} can't be read`, { cause: error });
    throw new ArchiveDamageError(
      basename(file),
      { position: reader?.next ?? 0, problem: 'unreadable' },
      error,
    );
  }
}

/** A file as {@link verifyFile} does, and that it is the one its manifest tells of. */
export async function verifyArchive(
  file: string,
  signal?: AbortSignal,
): Promise<{ contents: Contents; manifest: Manifest }> {
  const manifest = await readManifest(file);
  const contents = await verifyFile(file, undefined, signal);
  const wrong = disagreement(contents, manifest);
  if (wrong !== null)
    throw new ArchiveDamageError(basename(file), {
      position: contents.first_position,
      problem: `${wrong} is not what its manifest says`,
    });
  return { contents, manifest };
}

/** The first figure in which a file is not what its manifest says; null when there is none. */
export function disagreement(contents: Contents, manifest: Manifest): string | null {
  const { leavesBefore: _before, openLeaves: _open, lastLink: _last, ...facts } = contents;
  const found = Object.entries(facts).find(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(manifest[name as keyof Manifest]),
  );
  return found?.[0] ?? null;
}

/** What a file has to continue: the one before it, or the beginning of the log. */
export type Before = Pick<Contents, 'log_id' | 'last_position' | 'chain_after' | 'openLeaves'>;

/** What is before the first file of a log. */
export function beginning(logId: string): Before {
  return {
    log_id: logId,
    last_position: 0,
    chain_after: { position: 0, chain: genesis(logId).toString('hex') },
    openLeaves: Buffer.alloc(0),
  };
}

/** Where a file does not continue the one before it; null when it does. */
export function breach(before: Before, next: Contents): Damage | null {
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

class Damaged extends Error {
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

/** Takes in the lines of a file in order and holds what is not proved yet: the events of one batch. */
class Reader {
  readonly #header: Header;
  readonly #keepsLines: boolean;
  readonly #formats = new Set<string>();
  readonly #control = createHash('sha256');
  #controls = 0;
  #batches = 0;
  #pending: Leaf[];
  #lines: string[] = [];
  /** The last link so far; and the last that lies within the file. */
  #link: Link;
  #inner: Link;
  #openLeaves: Buffer = Buffer.alloc(0);
  #ended = false;
  /** The position of the event that has to come next. */
  next: number;
  /** Lines of events that were found good and that nobody took yet. */
  readonly proved: string[] = [];

  constructor(header: Header, keepsLines: boolean) {
    this.#header = header;
    this.#keepsLines = keepsLines;
    this.#pending = header.leaves_before.map((hash) => Buffer.from(hash, 'hex'));
    this.#link = this.#inner = header.chain_before;
    this.next = header.first_position;
    if (header.chain_before.position + this.#pending.length + 1 !== this.next)
      throw new Error('a header that contradicts itself');
  }

  take(text: string): void {
    const line: Line = parseLine(text, this.#header.shard);
    if (this.#ended) throw this.#damage('more than it should hold');
    if ('event' in line) {
      if (this.next > this.#header.last_position) throw this.#damage('beyond its end');
      if (Number(line.event[1]) !== this.next) throw this.#damage('missing or out of order');
      if (this.#pending.length === BATCH_EVENTS_MAX) throw this.#damage('in a batch without an end');
      this.#pending.push(line.event);
      if (this.#keepsLines) this.#lines.push(text);
      this.next++;
    } else if ('batch' in line) this.#prove(line.batch);
    else {
      // They tell nothing of their own positions, so those before them must all be there.
      if (this.next <= this.#header.last_position) throw this.#damage('missing');
      this.#pending.push(...line.leavesAfter);
    }
  }

  #prove(batch: BatchRow): void {
    const start = { position: this.#link.position, chain: Buffer.from(this.#link.chain, 'hex') };
    const damage = verifyBatches(start, [batch], this.#pending);
    if (damage) throw new Damaged(damage);
    this.#batches++;
    this.#formats.add(batch.format);
    for (const leaf of this.#pending) {
      if (Buffer.isBuffer(leaf) || leaf[STREAM_AT] === null) continue;
      this.#control.update(leafOf(leaf, batch.format));
      this.#controls++;
    }
    const position = Number(batch.lastPosition);
    this.#link = { position, chain: batch.chain.toString('hex') };
    if (position <= this.#header.last_position) this.#inner = this.#link;
    else {
      const own = this.#header.last_position - start.position;
      this.#openLeaves = Buffer.concat(this.#pending.slice(0, own).map((leaf) => leafOf(leaf, batch.format)));
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

  #damage(problem: string): Damaged {
    return new Damaged({ position: this.next, problem });
  }
}
