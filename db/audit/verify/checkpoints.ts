import type { Selectable } from 'kysely';
import type { CheckpointNote, TrustedKeys } from '#db/audit/verify/evidence.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import type { CheckpointTable } from '#db/schema/tables.ts';
import { originOf } from '#db/fold/signing.ts';
import { type Checkpoint, openCheckpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import type { Head } from '#db/tlog/merkle.ts';
import { NoteError, parseNote, verifyNote } from '#db/tlog/note.ts';

/** A row of `daybook.checkpoint`. `published_at` is null if unknown. */
export type CheckpointRow = Pick<Selectable<CheckpointTable>, 'epoch' | 'note'> & {
  size: number;
  published_at: string | null;
};

/** A checkpoint that was parsed. Its signatures are not verified yet. */
export type ParsedCheckpoint = CheckpointNote & {
  table: string;
  checkpoint: Checkpoint;
  row: CheckpointRow | null;
};

/**
 * A checkpoint with a trusted signature that contradicts the log. `verifiedTo` is the last size that agrees.
 */
export type Contradiction = { size: number; from: string; verifiedTo: number };

/** Compares the log with signed checkpoints, in the order of their sizes. */
export class CheckpointVerifier {
  readonly #logId: string;
  readonly #keys: TrustedKeys;
  readonly #abandoned = new Map<string, number>();
  readonly findings: Finding[] = [];
  readonly notes: string[] = [];
  /** The number of checkpoints that agree, the largest of them, and the first that does not. */
  agreed = 0;
  covered = 0;
  publishedAt: string | null = null;
  contradiction: Contradiction | null = null;
  /** Checkpoints with a trusted signature for whose size no root is available. */
  uncompared = 0;
  /** Checkpoints that are no rows of the log's database, with a trusted signature, and not contradicted. */
  readonly signed: ParsedCheckpoint[] = [];

  constructor(logId: string, keys: TrustedKeys) {
    this.#logId = logId;
    this.#keys = keys;
  }

  /** Parses a note. @returns null, with a finding, if it is not a checkpoint. */
  parse(claim: CheckpointNote, table: string, row: CheckpointRow | null = null): ParsedCheckpoint | null {
    try {
      return { ...claim, table, row, checkpoint: parseCheckpoint(parseNote(claim.note).text) };
    } catch (error) {
      this.#find(table, row?.size ?? 0, claim.from, (error as Error).message);
      return null;
    }
  }

  /** Whether a trusted key signed it for this log; if not, that is a finding. */
  isSigned(parsed: ParsedCheckpoint): boolean {
    const { checkpoint, row, table, from } = parsed;
    if (row && (row.size !== checkpoint.size || checkpoint.origin !== originOf(this.#logId, row.epoch))) {
      this.#find(table, row.size, from, `its note is for ${checkpoint.origin} at size ${checkpoint.size}`);
      return false;
    }
    if (
      checkpoint.origin !== originOf(this.#logId, 1) &&
      !checkpoint.origin.startsWith(`${originOf(this.#logId, 1)}/`)
    ) {
      this.#find(table, checkpoint.size, from, `it is of another log: ${checkpoint.origin}`);
      return false;
    }
    try {
      const { note } = openCheckpoint(parsed.note, this.#keys.verifiers);
      // Checkpoints stored in the log's database have only signatures of the log's own keys, one or two.
      if (row !== null && verifyNote(note, this.#keys.known).length < note.signatures.length)
        throw new NoteError('it has a signature that is not by a key of the log');
      return true;
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      this.#find(table, checkpoint.size, from, error.message);
      return false;
    }
  }

  /** An epoch ended at a position: its published events from there on were abandoned, as an event records. */
  abandonEpoch(epoch: number, position: number): void {
    this.#abandoned.set(originOf(this.#logId, epoch), position);
  }

  /** Whether a checkpoint covers abandoned events. It adds a note to the report, and contradicts nothing. */
  #isAbandoned({ checkpoint, from }: ParsedCheckpoint): boolean {
    const position = this.#abandoned.get(checkpoint.origin);
    if (position === undefined || checkpoint.size < position) return false;
    this.notes.push(
      `${from} is of an abandoned epoch: its positions ${position} to ${checkpoint.size} are not in ` +
        `this log, as the event at position ${position} records`,
    );
    return true;
  }

  /** Compares a checkpoint with the root of its size; null if no root is available. */
  compare(parsed: ParsedCheckpoint, root: Buffer | null): void {
    if (!this.isSigned(parsed) || this.#isAbandoned(parsed)) return;
    const { size } = parsed.checkpoint;
    if (parsed.row === null && root?.equals(parsed.checkpoint.root) !== false) this.signed.push(parsed);
    if (root === null) this.uncompared++;
    else if (root.equals(parsed.checkpoint.root)) {
      this.agreed++;
      if (size > this.covered) this.publishedAt = null;
      this.covered = Math.max(this.covered, size);
      if (size === this.covered) this.publishedAt ??= parsed.row?.published_at ?? null;
      this.#keys.confirm(size);
    } else if (this.contradiction === null)
      this.contradiction = { size, from: parsed.from, verifiedTo: this.covered };
  }

  /** The checkpoints with a trusted signature that are larger than the log. */
  signedBeyondHead(parsed: readonly ParsedCheckpoint[]): ParsedCheckpoint[] {
    return parsed.filter((each) => this.isSigned(each) && !this.#isAbandoned(each));
  }

  /** The tree head of a checkpoint with a trusted signature; null without one. */
  trustedHead(parsed: ParsedCheckpoint | null): Head | null {
    if (parsed === null) return null;
    try {
      return openCheckpoint(parsed.note, this.#keys.verifiers).checkpoint;
    } catch {
      return null;
    }
  }

  #find(table: string, position: number, from: string, problem: string): void {
    this.findings.push({ position, table, problem: `${from}: ${problem}` });
  }
}
