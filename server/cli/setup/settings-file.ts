import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { editSettings, UneditableFileError, withdrawSettings } from '#server/cli/setup/edit.ts';
import {
  CLIENTS,
  type ClientId,
  type SettingsFile,
  settingsText,
  setupOf,
} from '#server/contract/client-setup.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The settings file of a client, its backup, and a record of the last setup. */

/** Beside the file: its content before the first setup; absent if there was no file. */
const BACKUP = '.before-daybook';
/** Beside the file: the last setup, to undo it. */
const RECORD = '.daybook-setup.json';
const MODE = 0o600;
const DIRECTORY_MODE = 0o700;
/** Settings files have a few KiB; a larger one is something else. */
const FILE_BYTES_MAX = 4 * 1024 ** 2;

const Written = z.object({
  client: z.enum(CLIENTS),
  baseUrl: z.string(),
  model: z.string(),
  sha256: z.string(),
});
type Written = z.infer<typeof Written>;

/**
 * Writes the settings of a client into its file. What else the file says stays; its former version is kept.
 * @returns the path of the backup, or null where there was no file.
 * @throws {DecisionError} where the file can't be read, parsed or edited; it is unchanged then.
 */
export function writeSettings(
  file: string,
  client: ClientId,
  to: { baseUrl: string; model: string },
): string | null {
  const settings = fileOf(client, to);
  const written = readWritten(file);
  const now = read(file);
  // A second setup takes the first one back, and keeps its backup.
  const original = written === null ? now : read(file + BACKUP);
  const before = written === null ? now : undone(file, written, now, original);
  const text = guarded(file, () =>
    before === null
      ? `${settingsText(settings)}\n`
      : editSettings(settings.format, before, settings.settings),
  );
  mkdirSync(path.dirname(file), { recursive: true, mode: DIRECTORY_MODE });
  if (written === null && now !== null) replace(file + BACKUP, now);
  replace(file + RECORD, `${JSON.stringify({ client, ...to, sha256: digestOf(text) } satisfies Written)}\n`);
  replace(file, text);
  return original === null ? null : file + BACKUP;
}

/**
 * Takes the settings back: the file has its former content. If it was changed since, its other changes stay.
 * @returns whether the file was removed, because setup had created it.
 * @throws {DecisionError} where setup wrote nothing, or the file can't be edited.
 */
export function undoSettings(file: string): { isRemoved: boolean } {
  const written = readWritten(file);
  if (written === null) throw new DecisionError('invalid', `Nothing to undo: setup has not written ${file}.`);
  const text = undone(file, written, read(file), read(file + BACKUP));
  if (text === null) rmSync(file, { force: true });
  else replace(file, text);
  rmSync(file + BACKUP, { force: true });
  rmSync(file + RECORD, { force: true });
  return { isRemoved: text === null };
}

/** The text without the settings of a setup; null: no file. */
function undone(file: string, written: Written, now: string | null, original: string | null): string | null {
  if (now === null || digestOf(now) === written.sha256) return original;
  const { format, settings } = fileOf(written.client, written);
  return guarded(file, () => withdrawSettings(format, now, original ?? '', settings));
}

function fileOf(client: ClientId, to: { baseUrl: string; model: string }): SettingsFile {
  const { name, file, command } = setupOf(client, to);
  if (file === null)
    throw new DecisionError('invalid', `${name} writes its settings itself. Run: ${command ?? ''}`);
  return file;
}

function readWritten(file: string): Written | null {
  const text = read(file + RECORD);
  if (text === null) return null;
  try {
    return Written.parse(JSON.parse(text));
  } catch {
    throw new DecisionError('invalid', `${file + RECORD} is damaged. Remove it; ${file} stays as it is.`);
  }
}

/** @returns null if there is no file. */
function read(file: string): string | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw new DecisionError('invalid', `${file} can’t be read (${code}).`);
  }
  if (bytes.length > FILE_BYTES_MAX) throw new DecisionError('invalid', `${file} is too large for settings.`);
  return bytes.toString();
}

/** Replaces a file atomically. A symbolic link stays one. */
function replace(file: string, text: string): void {
  let target = file;
  try {
    target = realpathSync(file);
  } catch {
    // There is no such file yet.
  }
  const draft = `${target}.${process.pid}.tmp`;
  try {
    writeFileSync(draft, text, { mode: MODE, flag: 'wx' });
    renameSync(draft, target);
  } catch (error) {
    rmSync(draft, { force: true });
    throw new DecisionError(
      'invalid',
      `${file} can’t be written (${(error as NodeJS.ErrnoException).code}).`,
    );
  }
}

function guarded<T>(file: string, edit: () => T): T {
  try {
    return edit();
  } catch (error) {
    if (!(error instanceof UneditableFileError)) throw error;
    throw new DecisionError(
      'invalid',
      `${file} was not changed: ${error.message}. Run setup without --write, and add its settings by hand.`,
    );
  }
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
