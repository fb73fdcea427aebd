import type { Claim, TrustedKeys } from '#db/audit/verify/evidence.ts';
import type { Finding } from '#db/audit/verify/report.ts';
import { originOf } from '#db/fold/signing.ts';
import { type Checkpoint, openCheckpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import type { Head } from '#db/tlog/merkle.ts';
import { NoteError, parseNote, verifyNote } from '#db/tlog/note.ts';

/** A row of `daybook.checkpoint`. `published_at` is null where nobody says. */
export type CheckpointRow = { epoch: number; size: number; note: string; published_at: string | null };

/** A checkpoint that was told of, with what it says before anybody has looked at its signatures. */
export type Told = Claim & { table: string; checkpoint: Checkpoint; row: CheckpointRow | null };

/** A checkpoint that somebody who is believed has signed, and that the log does not agree with. */
export type Contradiction = { size: number; from: string; good: number };

/** Holds the log to its signed checkpoints, in the order of their sizes. */
export class ClaimCheck {
  readonly #logId: string;
  readonly #keys: TrustedKeys;
  readonly #givenUp = new Map<string, number>();
  readonly findings: Finding[] = [];
  readonly notes: string[] = [];
  /** How many agree, the largest of them, and the first that doesn't. */
  agreed = 0;
  covered = 0;
  publishedAt: string | null = null;
  contradiction: Contradiction | null = null;
  /** Signed, and the tree of its size is not at hand. */
  unproved = 0;

  constructor(logId: string, keys: TrustedKeys) {
    this.#logId = logId;
    this.#keys = keys;
  }

  /** Reads what a note says. What is no checkpoint is put down, and null comes back. */
  tell(claim: Claim, table: string, row: CheckpointRow | null = null): Told | null {
    try {
      return { ...claim, table, row, checkpoint: parseCheckpoint(parseNote(claim.note).text) };
    } catch (error) {
      this.#find(table, row?.size ?? 0, claim.from, (error as Error).message);
      return null;
    }
  }

  /** Whether somebody who is believed has signed it for this log; if not, that is put down. */
  isSigned(told: Told): boolean {
    const { checkpoint, row, table, from } = told;
    if (row && (row.size !== checkpoint.size || checkpoint.origin !== originOf(this.#logId, row.epoch))) {
      this.#find(table, row.size, from, `its note is of ${checkpoint.origin} at size ${checkpoint.size}`);
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
      const { note } = openCheckpoint(told.note, this.#keys.verifiers);
      // What the log itself keeps was signed by its keys alone, one or two of them, and by nobody else.
      if (row !== null && verifyNote(note, this.#keys.known).length < note.signatures.length)
        throw new NoteError('it has a signature that no key of the log has made');
      return true;
    } catch (error) {
      if (!(error instanceof NoteError)) throw error;
      this.#find(table, checkpoint.size, from, error.message);
      return false;
    }
  }

  /** An epoch ended at a position on purpose: what was published of it from there on was given up. */
  giveUp(epoch: number, position: number): void {
    this.#givenUp.set(originOf(this.#logId, epoch), position);
  }

  /**
   * Whether a checkpoint is of a history that the log says it has given up. Its reader has to know, and it
   * contradicts nothing.
   */
  #isGivenUp({ checkpoint, from }: Told): boolean {
    const position = this.#givenUp.get(checkpoint.origin);
    if (position === undefined || checkpoint.size < position) return false;
    this.notes.push(
      `${from} is of a history that was given up on purpose: positions ${position} to ${checkpoint.size} of it are not in this log, as the event at position ${position} says`,
    );
    return true;
  }

  /** Compares a checkpoint with the tree of its size; the root is null where that is not at hand. */
  compare(told: Told, root: Buffer | null): void {
    if (!this.isSigned(told) || this.#isGivenUp(told)) return;
    const { size } = told.checkpoint;
    if (root === null) this.unproved++;
    else if (root.equals(told.checkpoint.root)) {
      this.agreed++;
      if (size > this.covered) this.publishedAt = null;
      this.covered = Math.max(this.covered, size);
      if (size === this.covered) this.publishedAt ??= told.row?.published_at ?? null;
      this.#keys.confirm(size);
    } else if (this.contradiction === null)
      this.contradiction = { size, from: told.from, good: this.covered };
  }

  /** Those that are signed and of a longer log than there is. */
  beyond(told: readonly Told[]): Told[] {
    return told.filter((each) => this.isSigned(each) && !this.#isGivenUp(each));
  }

  /**
   * The head of a checkpoint that may prove tiles: signed by one who is believed. Says nothing where it
   * isn't.
   */
  headOf(told: Told | null): Head | null {
    if (told === null) return null;
    try {
      return openCheckpoint(told.note, this.#keys.verifiers).checkpoint;
    } catch {
      return null;
    }
  }

  #find(table: string, position: number, from: string, problem: string): void {
    this.findings.push({ position, table, problem: `${from}: ${problem}` });
  }
}
