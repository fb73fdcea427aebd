import { readFile } from 'node:fs/promises';
import type { Trust } from '#db/audit/verify/report.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { formatVerifierKey, NoteError, parseVerifierKey, type Verifier } from '#db/tlog/note.ts';
import { readCheckpointFile, readCheckpointHistory, readVerifierKeys } from '#db/tlog/publish-directory.ts';

/** What an auditor has besides the log itself. */
export type Evidence = {
  /** The publish directory. */
  published?: string | undefined;
  /** Checkpoints from the auditor's own records. */
  checkpoints?: readonly CheckpointNote[];
  /** The trusted keys. Default: the published ones, or else those that the log names. */
  keys?: readonly Verifier[];
  /** The directory with the files of archived partitions. */
  archive?: string | undefined;
};

/** A checkpoint as a signed note, and its source for messages. */
export type CheckpointNote = { from: string; note: string };

/** Reads checkpoints from files. @throws {StoreError} when one can't be read. */
export async function readCheckpoints(files: readonly string[]): Promise<CheckpointNote[]> {
  const claims: CheckpointNote[] = [];
  for (const file of files) claims.push({ from: file, note: await readText(file) });
  return claims;
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: Error) => {
    throw new StoreError(`${file} can't be read`, { cause: error });
  });
}

/** What a publish directory says: its newest checkpoint, the last ones of each hour, and the keys. */
export type Published = { claim: CheckpointNote | null; history: CheckpointNote[]; keys: Verifier[] };

export const NOTHING_PUBLISHED: Published = { claim: null, history: [], keys: [] };

/** Reads the checkpoints and the verifier keys of a publish directory. */
export async function readPublishedCheckpoint(directory: string): Promise<Published> {
  const note = await readCheckpointFile(directory);
  const history = await readCheckpointHistory(directory);
  return {
    claim: note === null ? null : { from: `${directory}/checkpoint`, note },
    // The newest one is the last one of its hour, too.
    history: history
      .filter((each) => each.note !== note)
      .map((each) => ({ from: `${directory}/${each.file}`, note: each.note })),
    keys: readKeyLines(await readVerifierKeys(directory)),
  };
}

/** Parses published key lines. Invalid lines are skipped. */
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
 * The trusted keys. A key that the log names after a rotation becomes trusted once a checkpoint signed by a
 * trusted key covers the event that names it.
 */
export class TrustedKeys {
  readonly verifiers: Verifier[];
  trust: Trust;
  #named: { verifier: Verifier; position: number }[] = [];

  constructor(given: readonly Verifier[] | undefined, published: readonly Verifier[]) {
    this.verifiers = [...(given ?? published)];
    this.trust = given !== undefined ? 'given' : published.length > 0 ? 'published' : 'none';
  }

  /** Adds a key that an event of the log names. */
  addNamedKey(line: string, position: number): void {
    let verifier: Verifier;
    try {
      verifier = parseVerifierKey(line);
    } catch {
      return;
    }
    if (this.verifiers.some((each) => formatVerifierKey(each) === line)) return;
    if (this.trust === 'none') this.trust = 'log';
    if (this.trust === 'log') this.verifiers.push(verifier);
    else this.#named.push({ verifier, position });
  }

  /** The trusted keys and those that the log names. */
  get known(): Verifier[] {
    return [...this.verifiers, ...this.#named.map(({ verifier }) => verifier)];
  }

  /** Called when a checkpoint of this size with a trusted signature agrees with the log. */
  confirm(size: number): void {
    for (const { verifier } of this.#named.filter(({ position }) => position <= size))
      this.verifiers.push(verifier);
    this.#named = this.#named.filter(({ position }) => position > size);
  }
}
