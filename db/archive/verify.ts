import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import type { Header } from '#db/archive/line.ts';
import { type Manifest, readManifest } from '#db/archive/manifest.ts';
import { readFilePages } from '#db/archive/read-file.ts';
import { type Batch, type Damage, entriesOf, genesis, leafHash, verifyBatch } from '#db/log/chain.ts';
import { hasControlLine, isControlLine } from '#db/log/control-lines.ts';

/** The verified content of a file, all derived from its events. `partition` is null if it is not one. */
export type Contents = Omit<Manifest, 'file' | 'made_at' | 'partition'> & { partition: number | null };

/**
 * Reads the batches of a file, each verified: its events, and its link of the hash chain. The link before its
 * first batch is not verified here: see {@link continuityDamage}.
 * @returns the content, when all of the file is read.
 * @throws {ArchiveDamageError} at the first damage.
 * @throws {StoreError} when the file can't be read.
 */
export async function* verifiedBatches(
  file: string,
  signal?: AbortSignal,
): AsyncGenerator<Batch[], Contents> {
  const digest = createHash('sha256');
  let bytes = 0;
  const onBytes = (read: Buffer): void => {
    digest.update(read);
    bytes += read.length;
  };
  let verifier: FileVerifier | null = null;
  const require = (damage: Damage | null): void => {
    if (damage !== null) throw new ArchiveDamageError(basename(file), damage);
  };
  for await (const { header, batches } of readFilePages(file, { onBytes, signal })) {
    verifier ??= new FileVerifier(header);
    for (const batch of batches) require(verifier.add(batch));
    if (batches.length > 0) yield batches;
  }
  const read = verifier as FileVerifier;
  require(read.damageAtEnd());
  return { ...read.contents(), bytes, sha256: digest.digest('hex') };
}

/** Verifies a file with {@link verifiedBatches}. */
export async function verifyFile(file: string, signal?: AbortSignal): Promise<Contents> {
  const batches = verifiedBatches(file, signal);
  let step = await batches.next();
  while (step.done !== true) step = await batches.next();
  return step.value;
}

/** Verifies a file with {@link verifyFile}, and that it matches its manifest. */
export async function verifyArchive(
  file: string,
  signal?: AbortSignal,
): Promise<{ contents: Contents; manifest: Manifest }> {
  const manifest = await readManifest(file);
  const contents = await verifyFile(file, signal);
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
  const found = Object.entries(contents).find(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(manifest[name as keyof Manifest]),
  );
  return found?.[0] ?? null;
}

/** What a file must continue: the file before it, or the start of the log. */
export type Predecessor = Pick<Contents, 'log_id' | 'last_position' | 'chain_after'>;

/** The predecessor of the first file of a log. */
export function logStart(logId: string): Predecessor {
  return { log_id: logId, last_position: 0, chain_after: genesis(logId).toString('hex') };
}

/** The damage if a file does not continue its predecessor; null if it does. */
export function continuityDamage(before: Predecessor, next: Contents): Damage | null {
  const position = next.first_position;
  if (before.log_id !== next.log_id) return { position, problem: 'of another log' };
  if (before.last_position + 1 !== position)
    return { position, problem: `does not follow position ${before.last_position}` };
  return before.chain_after === next.chain_before
    ? null
    : { position, problem: 'its chain does not continue the one before' };
}

/** Verifies the batches of a file in order. */
class FileVerifier {
  readonly #header: Header;
  readonly #formats = new Set<string>();
  readonly #control = createHash('sha256');
  #controls = 0;
  #batches = 0;
  /** The last link so far. */
  #link: { position: number; chain: Buffer };

  constructor(header: Header) {
    this.#header = header;
    this.#link = { position: header.first_position - 1, chain: Buffer.from(header.chain_before, 'hex') };
  }

  add(batch: Batch): Damage | null {
    const { row, events } = batch;
    const position = this.#link.position + 1;
    const last = Number(row.lastPosition);
    if (last > this.#header.last_position)
      return { position, problem: 'after the last position of the file' };
    if (row.shard !== String(this.#header.shard)) return { position, problem: 'of another shard' };
    const damage = verifyBatch(this.#link, batch);
    if (damage !== null) return damage;
    this.#batches++;
    this.#formats.add(row.format);
    if (hasControlLine(events)) this.#addControl(batch);
    this.#link = { position: last, chain: row.chain };
    return null;
  }

  #addControl(batch: Batch): void {
    const entries = entriesOf(batch);
    for (const [index, line] of batch.events.split('\n').entries()) {
      if (!isControlLine(line)) continue;
      this.#control.update(leafHash(entries[index] as string));
      this.#controls++;
    }
  }

  damageAtEnd(): Damage | null {
    const position = this.#link.position + 1;
    return position > this.#header.last_position ? null : { position, problem: 'missing' };
  }

  contents(): Omit<Contents, 'bytes' | 'sha256'> {
    const { first_position, last_position } = this.#header;
    return {
      ...this.#header,
      event_count: last_position - first_position + 1,
      batch_count: this.#batches,
      formats: [...this.#formats].toSorted(),
      chain_after: this.#link.chain.toString('hex'),
      control_count: this.#controls,
      control_sha256: this.#control.digest('hex'),
    };
  }
}
