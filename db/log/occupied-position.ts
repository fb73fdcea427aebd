import { DatabaseError } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';

/** SQLSTATE of `daybook.write_batch`, whose detail is the row's position. */
const OCCUPIED = 'DB004';

/**
 * Behind the head of the log stands a row that no append wrote. Nothing can be appended until an operator has
 * removed it: writing around it would make it part of the log.
 */
export class OccupiedPositionError extends StoreError {
  override name = 'OccupiedPositionError';
  /** The row's, the first such row behind the head. */
  readonly position: number;

  constructor(position: number, cause: unknown) {
    super(
      `log position ${position} is occupied by a row that belongs to no batch, ` +
        'so no event can be appended: the log was changed by hand. Run "npm run -s audit -- verify", then ' +
        'remove the row as docs/audit.md describes under "A row behind the head"',
      { cause },
    );
    this.position = position;
  }
}

/** An error of an append as {@link OccupiedPositionError} if it is one, or else the same error. */
export function explainAppendError(error: unknown): unknown {
  if (!(error instanceof DatabaseError) || error.code !== OCCUPIED) return error;
  return new OccupiedPositionError(Number(error.detail), error);
}
