import type { Manifest as ArchiveManifest } from '#db/archive/manifest.ts';
import {
  CORRECTION_COLUMNS,
  correctionDifference,
  type CorrectionRow,
} from '#db/audit/verify/corrections.ts';
import type { TableRows, Times } from '#db/backup/rows.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import type { Batch, Damage } from '#db/log/chain.ts';
import { cellsOf } from '#db/log/line.ts';

const CORRECTION = `(${EVENT_CODES['usage.adjusted']},`;

/** Compares the rows of `correction` in a backup with its log. */
export class CorrectionRows {
  readonly #rows: TableRows;
  readonly #times: Times;
  readonly #places: readonly number[];

  constructor(rows: TableRows, times: Times) {
    this.#rows = rows;
    this.#times = times;
    this.#places = rows.columnIndexes(['position', 'at', ...CORRECTION_COLUMNS]);
  }

  /** Compares the corrections of a batch. */
  async compare({ row: { lastPosition, eventCount, at }, events }: Batch): Promise<Damage | null> {
    if (!events.includes(CORRECTION)) return null;
    const first = Number(lastPosition) - Number(eventCount) + 1;
    for (const [index, line] of events.split('\n').entries()) {
      if (!line.startsWith(CORRECTION)) continue;
      const position = first + index;
      const row = await this.#take(position);
      if (row === null) return { position, problem: DIFFERENT };
      if (
        Number(row.position) !== position ||
        correctionDifference(row, { at, cells: cellsOf(line) }) !== null
      )
        return { position: Number(row.position), problem: DIFFERENT };
    }
    return null;
  }

  /** Skips those of an archived partition, whose events are not in the backup. */
  async skip({ last_position: last }: ArchiveManifest): Promise<void> {
    while ((await this.#take(last)) !== null);
  }

  async damageAtEnd(): Promise<Damage | null> {
    const row = await this.#take(Number.MAX_SAFE_INTEGER);
    return row === null ? null : { position: Number(row.position), problem: DIFFERENT };
  }

  /** Consumes the next row; null if it is above a position, or the last one was consumed. */
  async #take(upTo: number): Promise<CorrectionRow | null> {
    const values = await this.#rows.peek();
    if (values === undefined) return null;
    const [position, at, ...columns] = this.#places.map((place) => values[place] ?? null);
    if (Number(position) > upTo) return null;
    this.#rows.take();
    return {
      position: position ?? '',
      at: this.#times.usOf(at ?? ''),
      ...Object.fromEntries(CORRECTION_COLUMNS.map((name, index) => [name, columns[index] ?? null])),
    } as CorrectionRow;
  }
}

const DIFFERENT = 'its row in correction differs from the log';
