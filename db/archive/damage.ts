import type { Damage } from '#db/log/chain.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** A file or a table does not match the hash chain. `position` is the first damaged one, as far as known. */
export class ArchiveDamageError extends StoreError {
  override name = 'ArchiveDamageError';
  readonly position: number;
  constructor(what: string, { position, problem }: Damage, cause?: unknown) {
    super(`${what} is damaged at position ${position}: ${problem}`, { cause });
    this.position = position;
  }
}
