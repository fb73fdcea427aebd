import type { ClientBase } from 'pg';
import { BELOW_ALL_POSITIONS } from '#db/audit/verify/pages.ts';
import type { Finding } from '#db/audit/verify/report.ts';

/** A table that has some events of the log once more, a row for each. */
export type CopyTable<Event extends { position: number }, Row extends { position: string }> = {
  name: string;
  /** What an event in it is, with an article. */
  kind: string;
  /** Its rows above one position up to another. */
  read(client: ClientBase, after: number | string, upTo: number | string): Promise<Row[]>;
  /** The columns in which a row differs from its event, as text; null if it agrees. */
  differenceOf(row: Row, event: Event): string | null;
};

/** Compares the rows of a table with the events of the log while that is read. */
export class CopyComparison<Event extends { position: number }, Row extends { position: string }> {
  readonly #client: ClientBase;
  readonly #table: CopyTable<Event, Row>;
  #after: number | string;
  #comparison: Promise<void> = Promise.resolve();
  readonly findings: Finding[] = [];

  /** @param first the position of the first event that is read. */
  constructor(client: ClientBase, table: CopyTable<Event, Row>, first: number) {
    this.#client = client;
    this.#table = table;
    this.#after = first === 1 ? BELOW_ALL_POSITIONS : first - 1;
  }

  /**
   * Compares the events since the last call, up to a position. Waits for the comparison of the call before,
   * so that Postgres reads while the next page is verified.
   */
  async compare(events: readonly Event[], upTo: number | string): Promise<void> {
    const before = this.#comparison;
    this.#comparison = this.#compare(events, this.#after, upTo);
    this.#comparison.catch(() => undefined);
    this.#after = upTo;
    await before;
  }

  /** Compares the rest. @param beyond positions of rows that stood behind the head when that was read. */
  async finish(head: number, beyond: readonly number[]): Promise<Finding[]> {
    await this.compare([], head);
    await this.#comparison;
    for (const position of beyond) this.#findSurplus(position);
    return this.findings;
  }

  #findSurplus(position: number): void {
    this.#find(position, `is not ${this.#table.kind} of the log`);
  }

  #find(position: number, problem: string): void {
    const { name } = this.#table;
    this.findings.push({ position, table: name, problem: `the row of position ${position} ${problem}` });
  }

  async #compare(events: readonly Event[], after: number | string, upTo: number | string): Promise<void> {
    const rows = await this.#table.read(this.#client, after, upTo);
    const stored = new Map(rows.map((row) => [Number(row.position), row]));
    for (const event of events) {
      const row = stored.get(event.position);
      stored.delete(event.position);
      const difference = row && this.#table.differenceOf(row, event);
      if (row === undefined) this.#find(event.position, 'is missing');
      else if (difference != null)
        this.#find(event.position, `has another ${difference} than the event of the log`);
    }
    for (const position of stored.keys()) this.#findSurplus(position);
  }
}

/** The names of the columns in which a row differs from the expected one, as text; null if it agrees. */
export function differingColumns(
  row: Readonly<Record<string, unknown>>,
  expected: Readonly<Record<string, unknown>>,
): string | null {
  const names = Object.entries(expected).flatMap(([name, value]) => (row[name] === value ? [] : [name]));
  return names.length === 0 ? null : names.join(' and ');
}
