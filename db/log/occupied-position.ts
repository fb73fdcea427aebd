import { DatabaseError } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';

/** SQLSTATE of a violated unique constraint. */
const UNIQUE_VIOLATION = '23505';
const PARTITION = /^log_\d{6}$/;
/** The key values in PostgreSQL's detail of the violation, in any language: `…=(shard, position)…`. */
const KEY_VALUES = /\)=\((\d+), (\d+)\)/;

/**
 * The next position of the log is occupied by a row that no append wrote. Nothing can be appended until an
 * operator has removed the row: writing around it would make it part of the log.
 */
export class OccupiedPositionError extends StoreError {
  override name = 'OccupiedPositionError';
  /** The occupied position; null if PostgreSQL did not report it. */
  readonly position: number | null;

  constructor(position: number | null, cause: unknown) {
    super(
      `log position ${position ?? 'after the last batch'} is occupied by a row that belongs to no batch, ` +
        'so no event can be appended: the log was changed by hand. Run "npm run -s audit -- verify", then ' +
        'remove the row as docs/audit.md describes under "A row behind the head"',
      { cause },
    );
    this.position = position;
  }
}

/** An error of an append as {@link OccupiedPositionError} if it is one, or else the same error. */
export function explainAppendError(error: unknown): unknown {
  if (!(error instanceof DatabaseError) || error.code !== UNIQUE_VIOLATION) return error;
  if (!PARTITION.test(error.table ?? '')) return error;
  const position = KEY_VALUES.exec(error.detail ?? '')?.[2];
  return new OccupiedPositionError(position === undefined ? null : Number(position), error);
}
