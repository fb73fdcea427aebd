import { generateKeyPairSync } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { ALARMS, type AlarmKind } from '#db/audit/witness/evaluate.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { type Checkpoint, parseCheckpoint } from '#db/tlog/checkpoint.ts';
import {
  formatVerifierKey,
  NoteError,
  parseNote,
  parseVerifierKey,
  type Signer,
  signerOf,
} from '#db/tlog/note.ts';
import { HISTORY_INTERVAL_MS } from '#db/audit/bounds.ts';

/**
 * The state directory of a witness: its key, the checkpoint that it cosigned last, the history of earlier
 * ones, and the evidence of an alarm. A cosignature is on disk before it leaves this process.
 */

const KEY = 'key';
const VERIFIER_KEY = 'verifier-key';
const CHECKPOINT = 'checkpoint';
const ALARM = 'alarm';
const LOCK = 'lock';
const HISTORY = /^history-\d{4}-\d{2}$/;

const Alarm = z.object({
  alarm: z.enum(Object.keys(ALARMS) as [AlarmKind, ...AlarmKind[]]),
  message: z.string(),
  at: z.string(),
  log: z.string(),
  witness: z.string(),
  /** The checkpoint that this witness had cosigned, as a signed note; null if none. */
  known: z.string().nullable(),
  /** The checkpoint that the log served. */
  shown: z.string(),
  /** The consistency proof that the log served, in base64; null if none. */
  proof: z.array(z.string()).nullable(),
});
/** An alarm, with the evidence that convinces a third party. */
export type Alarm = z.infer<typeof Alarm>;

/** Parses the checkpoint of a stored note. */
export const parseCheckpointNote = (note: string): Checkpoint => parseCheckpoint(parseNote(note).text);

export class WitnessState {
  readonly directory: string;
  readonly signer: Signer;
  readonly #lock: DatabaseSync;
  #historyAtMs = 0;

  /**
   * Opens the state directory of a witness. Generates a key if it has no key yet.
   * @param name of the witness; needed the first time only.
   * @throws {StoreError} when another process uses the directory, or a file in it is invalid.
   */
  constructor(directory: string, name: string | undefined) {
    this.directory = path.resolve(directory);
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    this.#lock = acquireLock(this.#file(LOCK));
    try {
      this.signer = this.#openSigner(name);
    } catch (error) {
      this.close();
      throw error instanceof NoteError
        ? new StoreError(`the key in ${this.directory} is invalid: ${error.message}`, { cause: error })
        : error;
    }
  }

  get verifierKey(): string {
    return formatVerifierKey(this.signer);
  }

  /** The note that was cosigned last; null if none. @throws {StoreError} when it can't be read. */
  checkpoint(): string | null {
    const note = readOptional(this.#file(CHECKPOINT));
    if (note !== null) this.#parse(note);
    return note;
  }

  /** Stores a note that was just cosigned. A smaller checkpoint never replaces a larger one. */
  advance(note: string): void {
    const before = this.checkpoint();
    if (before !== null && parseCheckpointNote(before).size > parseCheckpointNote(note).size)
      throw new StoreError('a witness never goes back to a smaller checkpoint');
    this.#store(note, false);
  }

  /**
   * The newest note of the history; null if it is empty. The stored checkpoint is older than this one only
   * if it was restored from a backup.
   */
  lastInHistory(): string | null {
    const last = readdirSync(this.directory)
      .filter((name) => HISTORY.test(name))
      .toSorted()
      .at(-1);
    if (last === undefined) return null;
    // Each note is a text and its signatures, with an empty line after each of the two.
    const [text, signatures] = readFileSync(this.#file(last), 'utf8').split('\n\n').slice(-3, -1);
    return text === undefined || signatures === undefined ? null : `${text}\n\n${signatures}\n`;
  }

  /** The alarm that has stopped this witness; null if none. */
  alarm(): Alarm | null {
    const text = readOptional(this.#file(ALARM));
    if (text === null) return null;
    const parsed = Alarm.safeParse(parseJson(text));
    if (!parsed.success)
      throw new StoreError(
        `${this.#file(ALARM)} can't be read, and while it exists this witness signs nothing`,
      );
    return parsed.data;
  }

  raise(alarm: Alarm): void {
    this.#write(ALARM, `${JSON.stringify(alarm, null, 2)}\n`);
  }

  /**
   * Clears an alarm by an operator's decision. The evidence is kept under another name.
   * @param note the checkpoint to continue from; null for the one that was cosigned last.
   */
  accept(note: string | null, nowMs: number): void {
    if (note !== null) this.#store(note, true);
    renameSync(
      this.#file(ALARM),
      this.#file(`${ALARM}-accepted-${new Date(nowMs).toISOString().replace(/[:.]/g, '-')}`),
    );
    syncDirectory(this.directory);
  }

  /** Releases the directory. */
  close(): void {
    this.#lock.close();
  }

  #file(name: string): string {
    return path.join(this.directory, name);
  }

  #parse(note: string): Checkpoint {
    try {
      return parseCheckpointNote(note);
    } catch (error) {
      throw new StoreError(
        `${this.#file(CHECKPOINT)} was modified: it is not a checkpoint that this witness wrote`,
        {
          cause: error,
        },
      );
    }
  }

  #store(note: string, always: boolean): void {
    this.#write(CHECKPOINT, note);
    const nowMs = Date.now();
    if (!always && nowMs - this.#historyAtMs < HISTORY_INTERVAL_MS) return;
    this.#historyAtMs = nowMs;
    appendFileSync(this.#file(`history-${new Date(nowMs).toISOString().slice(0, 7)}`), `${note}\n`, {
      flush: true,
    });
  }

  /** The key is generated once. The verifier key is stored beside it and carries the name. */
  #openSigner(name: string | undefined): Signer {
    const file = this.#file(KEY);
    if (!existsSync(file)) {
      if (name === undefined)
        throw new StoreError(
          '--name is required the first time: a name for this witness, such as witness.example.com',
        );
      const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
      const signer = signerOf(name, 'cosignature', pem);
      this.#write(VERIFIER_KEY, `${formatVerifierKey(signer)}\n`);
      this.#write(KEY, pem);
      return signer;
    }
    if (process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0)
      throw new StoreError(`other users can read ${file}. Run: chmod 600 ${file}`);
    const line = readOptional(this.#file(VERIFIER_KEY))?.trim();
    const storedName = line === undefined ? name : parseVerifierKey(line).name;
    if (storedName === undefined)
      throw new StoreError(
        `${this.#file(VERIFIER_KEY)} is missing: pass the name of this witness with --name, the same ` +
          'as before',
      );
    if (name !== undefined && name !== storedName)
      throw new StoreError(
        `the witness in ${this.directory} is ${storedName}; for another name use another directory`,
      );
    const signer = signerOf(storedName, 'cosignature', readFileSync(file, 'utf8'));
    if (line !== undefined && formatVerifierKey(signer) !== line)
      throw new StoreError(`${this.#file(VERIFIER_KEY)} does not match the key beside it`);
    return signer;
  }

  /** Replaces a file atomically, also across a power failure. */
  #write(name: string, text: string): void {
    const partial = this.#file(`${name}.partial`);
    writeFileSync(partial, text, { mode: 0o600, flush: true });
    renameSync(partial, this.#file(name));
    syncDirectory(this.directory);
  }
}

/** SQLite's file lock, which the operating system releases when the process ends in any way. */
function acquireLock(file: string): DatabaseSync {
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    lock.close();
    throw new StoreError(`another witness is running in ${path.dirname(file)}`, { cause: error });
  }
}

function syncDirectory(directory: string): void {
  // Windows has no fsync for directories.
  if (process.platform === 'win32') return;
  const handle = openSync(directory, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function readOptional(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
