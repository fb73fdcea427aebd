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
import { ALARMS, type AlarmKind } from '#db/audit/witness/witness.ts';
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

/**
 * The directory of a witness: its key, the checkpoint that it has signed last, those before it, and
 * the evidence of an alarm. What was signed is on the disk before anybody is told.
 */

const KEY = 'key';
const VERIFIER_KEY = 'verifier-key';
const CHECKPOINT = 'checkpoint';
const ALARM = 'alarm';
const LOCK = 'lock';
const HISTORY = /^history-\d{4}-\d{2}$/;

/**
 * One in so long goes into the history: some 300 MB a year where the log never rests. The newest is in a file
 * of its own.
 */
const HISTORY_EVERY_MS = 60_000;

const Alarm = z.object({
  alarm: z.enum(Object.keys(ALARMS) as [AlarmKind, ...AlarmKind[]]),
  message: z.string(),
  at: z.string(),
  log: z.string(),
  witness: z.string(),
  /** What this witness had signed, as a note; null: nothing. */
  known: z.string().nullable(),
  /** What the log showed. */
  shown: z.string(),
  /** What it sent as its proof, in base64; null: nothing that is one. */
  proof: z.array(z.string()).nullable(),
});
/** What a witness found, with all that it takes to show it to others. */
export type Alarm = z.infer<typeof Alarm>;

/** The checkpoint of a note that this witness has kept. */
export const checkpointIn = (note: string): Checkpoint => parseCheckpoint(parseNote(note).text);

export class WitnessState {
  readonly directory: string;
  readonly signer: Signer;
  readonly #lock: DatabaseSync;
  #historyAtMs = 0;

  /**
   * Opens the directory of a witness, and makes its key where there is none.
   * @param name of the witness, for the first time; afterwards it has one.
   * @throws {StoreError} when another process is at it, or something in it can't be used.
   */
  constructor(directory: string, name: string | undefined) {
    this.directory = path.resolve(directory);
    mkdirSync(this.directory, { recursive: true, mode: 0o700 });
    this.#lock = lockOf(this.#file(LOCK));
    try {
      this.signer = this.#openSigner(name);
    } catch (error) {
      this.close();
      throw error instanceof NoteError
        ? new StoreError(`the key in ${this.directory} can't be used: ${error.message}`, { cause: error })
        : error;
    }
  }

  get verifierKey(): string {
    return formatVerifierKey(this.signer);
  }

  /** The note that was signed last; null: none. @throws {StoreError} when it can't be read. */
  checkpoint(): string | null {
    const note = readIfThere(this.#file(CHECKPOINT));
    if (note !== null) this.#checked(note);
    return note;
  }

  /** Keeps a note that was just signed. Nothing that is shorter ever takes the place of what is there. */
  advance(note: string): void {
    const before = this.checkpoint();
    if (before !== null && checkpointIn(before).size > checkpointIn(note).size)
      throw new StoreError('a witness goes back to no shorter log');
    this.#keep(note, false);
  }

  /**
   * The newest note of the history; null where there is none. The checkpoint is never behind it, unless it
   * was put back.
   */
  lastInHistory(): string | null {
    const last = readdirSync(this.directory)
      .filter((name) => HISTORY.test(name))
      .toSorted()
      .at(-1);
    if (last === undefined) return null;
    // Each note is a text and signatures, with an empty line behind each of them.
    const [text, signatures] = readFileSync(this.#file(last), 'utf8').split('\n\n').slice(-3, -1);
    return text === undefined || signatures === undefined ? null : `${text}\n\n${signatures}\n`;
  }

  /** What has stopped this witness; null: nothing. */
  alarm(): Alarm | null {
    const text = readIfThere(this.#file(ALARM));
    if (text === null) return null;
    const parsed = Alarm.safeParse(parseJson(text));
    if (!parsed.success)
      throw new StoreError(
        `${this.#file(ALARM)} can't be read, and while it is there this witness signs nothing`,
      );
    return parsed.data;
  }

  raise(alarm: Alarm): void {
    this.#write(ALARM, `${JSON.stringify(alarm, null, 2)}\n`);
  }

  /**
   * Goes on from a note, as a person has decided; the evidence stays under another name. @param note null:
   * from what was signed last.
   */
  accept(note: string | null, nowMs: number): void {
    if (note !== null) this.#keep(note, true);
    renameSync(
      this.#file(ALARM),
      this.#file(`${ALARM}-accepted-${new Date(nowMs).toISOString().replace(/[:.]/g, '-')}`),
    );
    syncDirectory(this.directory);
  }

  /** Lets another process have the directory. */
  close(): void {
    this.#lock.close();
  }

  #file(name: string): string {
    return path.join(this.directory, name);
  }

  #checked(note: string): Checkpoint {
    try {
      return checkpointIn(note);
    } catch (error) {
      throw new StoreError(`${this.#file(CHECKPOINT)} is not what this witness has written there`, {
        cause: error,
      });
    }
  }

  #keep(note: string, always: boolean): void {
    this.#write(CHECKPOINT, note);
    const nowMs = Date.now();
    if (!always && nowMs - this.#historyAtMs < HISTORY_EVERY_MS) return;
    this.#historyAtMs = nowMs;
    appendFileSync(this.#file(`history-${new Date(nowMs).toISOString().slice(0, 7)}`), `${note}\n`, {
      flush: true,
    });
  }

  /** The key is made once; its public line lies beside it and says the name. */
  #openSigner(name: string | undefined): Signer {
    const file = this.#file(KEY);
    if (!existsSync(file)) {
      if (name === undefined)
        throw new StoreError(
          '--name is needed the first time: a name for this witness, such as witness.example.com',
        );
      const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
      const signer = signerOf(name, 'cosignature', pem);
      this.#write(VERIFIER_KEY, `${formatVerifierKey(signer)}\n`);
      this.#write(KEY, pem);
      return signer;
    }
    if (process.platform !== 'win32' && (statSync(file).mode & 0o077) !== 0)
      throw new StoreError(`other users can read ${file}. Run: chmod 600 ${file}`);
    const line = readIfThere(this.#file(VERIFIER_KEY))?.trim();
    const told = line === undefined ? name : parseVerifierKey(line).name;
    if (told === undefined)
      throw new StoreError(`${this.#file(VERIFIER_KEY)} is missing: name this witness by --name as before`);
    if (name !== undefined && name !== told)
      throw new StoreError(
        `the witness in ${this.directory} is ${told}; for another name take another directory`,
      );
    const signer = signerOf(told, 'cosignature', readFileSync(file, 'utf8'));
    if (line !== undefined && formatVerifierKey(signer) !== line)
      throw new StoreError(`${this.#file(VERIFIER_KEY)} is not of the key beside it`);
    return signer;
  }

  /** Under its name there is either what was before, or all of it, also after a loss of power. */
  #write(name: string, text: string): void {
    const partial = this.#file(`${name}.partial`);
    writeFileSync(partial, text, { mode: 0o600, flush: true });
    renameSync(partial, this.#file(name));
    syncDirectory(this.directory);
  }
}

/** A lock that the system takes back from a process that ends, however it does: SQLite's on a file. */
function lockOf(file: string): DatabaseSync {
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    lock.close();
    throw new StoreError(`another witness is at work in ${path.dirname(file)}`, { cause: error });
  }
}

function syncDirectory(directory: string): void {
  // Windows knows no such thing, and needs none.
  if (process.platform === 'win32') return;
  const folder = openSync(directory, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function readIfThere(file: string): string | null {
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
