import { readFile } from 'node:fs/promises';
import type { Trust } from '#db/audit/verify/report.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { formatVerifierKey, NoteError, parseVerifierKey, type Verifier } from '#db/tlog/note.ts';
import { readCheckpointFile, readVerifierKeys } from '#db/tlog/publish-directory.ts';

/** What an auditor holds of a log beside the log itself. */
export type Evidence = {
  /** The directory that the log is published in. */
  published?: string | undefined;
  /** Checkpoints that were kept, as they were signed. */
  checkpoints?: readonly Claim[];
  /** The keys that the auditor trusts. Absent: those that are published, or else those that the log names. */
  keys?: readonly Verifier[];
  /** Where the files of partitions lie that have left the database. */
  archive?: string | undefined;
};

/** A signed head of the log, and where it is from. */
export type Claim = { from: string; note: string };

/** Checkpoints that an auditor has in files. @throws {StoreError} when one can't be read. */
export async function readCheckpoints(files: readonly string[]): Promise<Claim[]> {
  const claims: Claim[] = [];
  for (const file of files) claims.push({ from: file, note: await readText(file) });
  return claims;
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: Error) => {
    throw new StoreError(`${file} can't be read`, { cause: error });
  });
}

/** What is published in a directory: the newest checkpoint, and the keys that sign. */
export async function readPublishedClaim(
  directory: string,
): Promise<{ claim: Claim | null; keys: Verifier[] }> {
  const note = await readCheckpointFile(directory);
  return {
    claim: note === null ? null : { from: `${directory}/checkpoint`, note },
    keys: readKeyLines(await readVerifierKeys(directory)),
  };
}

/** Keys that a log has published. What is no key signs nothing and is left out. */
export function readKeyLines(lines: readonly string[]): Verifier[] {
  return lines.flatMap((line) => {
    try {
      return [parseVerifierKey(line)];
    } catch (error) {
      if (error instanceof NoteError) return [];
      throw error;
    }
  });
}

/**
 * The keys that may have signed. What the auditor has brought comes first; a key that took its place
 * is believed once a checkpoint that a believed key has signed covers the event that names it.
 */
export class TrustedKeys {
  readonly verifiers: Verifier[];
  trust: Trust;
  #told: { verifier: Verifier; position: number }[] = [];

  constructor(given: readonly Verifier[] | undefined, published: readonly Verifier[]) {
    this.verifiers = [...(given ?? published)];
    this.trust = given !== undefined ? 'given' : published.length > 0 ? 'published' : 'none';
  }

  /** The log says at a position that this key signs from there on. */
  tell(line: string, position: number): void {
    let verifier: Verifier;
    try {
      verifier = parseVerifierKey(line);
    } catch {
      return;
    }
    if (this.verifiers.some((each) => formatVerifierKey(each) === line)) return;
    if (this.trust === 'none') this.trust = 'log';
    if (this.trust === 'log') this.verifiers.push(verifier);
    else this.#told.push({ verifier, position });
  }

  /** Those that are believed and those that the log names beside them. */
  get known(): Verifier[] {
    return [...this.verifiers, ...this.#told.map(({ verifier }) => verifier)];
  }

  /** A checkpoint of this size agrees with the log, signed by one who is believed. */
  confirm(size: number): void {
    for (const { verifier } of this.#told.filter(({ position }) => position <= size))
      this.verifiers.push(verifier);
    this.#told = this.#told.filter(({ position }) => position > size);
  }
}
