import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';

/** Codes of a directory in which no file can be created. */
const UNWRITABLE = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'ENOSPC', 'EDQUOT'];

/** Whether an error says that a file can't be created or removed where it is. */
export const isUnwritable = (error: unknown): boolean =>
  UNWRITABLE.includes((error as NodeJS.ErrnoException).code ?? '');

/**
 * A file with one secret, which only its owner can read. It is opened before the secret is issued, so that
 * none is issued which nothing can take, and appears under its name when it is published.
 */
export class SecretFile {
  readonly path: string;
  readonly #draft: string;
  readonly #fd: number;

  private constructor(file: string, draft: string, fd: number) {
    this.path = file;
    this.#draft = draft;
    this.#fd = fd;
  }

  /** @returns null if its directory doesn't exist or can't be written. */
  static open(file: string): SecretFile | null {
    const absolute = path.resolve(file);
    const draft = `${absolute}.new-${process.pid}`;
    try {
      rmSync(draft, { force: true });
      return new SecretFile(absolute, draft, openSync(draft, 'wx', 0o600));
    } catch (error) {
      if (isUnwritable(error)) return null;
      throw error;
    }
  }

  write(secret: string): void {
    writeSync(this.#fd, `${secret}\n`);
    fsyncSync(this.#fd);
  }

  /** Replaces the file rather than its content, since an existing one would keep its mode. */
  publish(): void {
    closeSync(this.#fd);
    renameSync(this.#draft, this.path);
  }

  discard(): void {
    closeSync(this.#fd);
    rmSync(this.#draft, { force: true });
  }
}
