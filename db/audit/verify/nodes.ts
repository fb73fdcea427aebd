import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import type { AuditTree, Node } from '#db/audit/verify/tree.ts';
import { SHARD } from '#db/log/append.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';
import { FINDINGS_MAX } from '#db/audit/bounds.ts';
import { db, type Placeholders, prepare, rowsOf } from '#db/schema/query.ts';

export type NodeId = { level: number; number: number };
/** Consecutive nodes of a level. */
export type NodeRange = { level: number; from: number; to: number };

/** The levels above the first, which have few nodes and are compared at the end. */
const UPPER_LEVELS = [2, 3, 4, 5, 6];

/** How many nodes of a level a tree of this size has. */
const countIn = (size: number, level: number): number => Math.floor(size / NODE_CHILDREN ** level);

type Stored = { level: number; from: string; to: string };
const selectNodes = prepare('verify_nodes', ({ level, from, to }: Placeholders<Stored>) =>
  db
    .selectFrom('daybook.log_node')
    .select(['number', 'hash'])
    .where('shard', '=', SHARD)
    .where('level', '=', level)
    .where('number', '>=', from)
    .where('number', '<', to),
);

/** Compares `daybook.log_node` with the tree as it grows. */
export class NodeCheck {
  readonly #client: ClientBase;
  readonly #first: number;
  readonly #upper: Node[] = [];
  readonly #firsts: ReadonlyMap<number, number>;
  readonly #wrong: NodeId[] = [];
  readonly #missing: NodeRange[] = [];
  #next: number;
  #comparison: Promise<void> = Promise.resolve();

  /** @param first the position of the first event that is read. */
  constructor(client: ClientBase, first: number) {
    this.#client = client;
    this.#first = first;
    // Nodes that begin before the first event can't be compared.
    const firstOf = (level: number): number => Math.ceil((first - 1) / NODE_CHILDREN ** level);
    this.#next = firstOf(1);
    this.#firsts = new Map(UPPER_LEVELS.map((level) => [level, firstOf(level)]));
  }

  /**
   * Compares the nodes that were completed since the last call. Waits for the comparison of the call before,
   * so that Postgres reads the next page in parallel.
   */
  async compareCompleted(tree: AuditTree | null): Promise<void> {
    const completed = (tree?.completed.splice(0) ?? []).filter(({ level, number }) =>
      level === 1 ? number >= this.#next : number >= (this.#firsts.get(level) ?? 0),
    );
    this.#upper.push(...completed.filter(({ level }) => level > 1));
    const nodes = completed.filter(({ level }) => level === 1);
    const last = nodes.at(-1);
    const before = this.#comparison;
    if (last !== undefined)
      this.#comparison = this.#compare(1, this.#next, (this.#next = last.number + 1), nodes);
    this.#comparison.catch(() => undefined);
    await before;
  }

  /**
   * Compares the upper levels, and finds rows beyond the log and missing rows.
   * @param tree null if an event was unreadable.
   * @param builtTo the size up to which the table must be complete: that of the largest checkpoint.
   * @returns the nodes that differ or are not of this log, and those that are missing.
   */
  async finish(
    tree: AuditTree | null,
    head: number,
    builtTo: number,
  ): Promise<{ wrong: NodeId[]; missing: NodeRange[] }> {
    await this.compareCompleted(tree);
    await this.#comparison;
    const end = Number.MAX_SAFE_INTEGER;
    await this.#compare(1, tree === null ? countIn(head, 1) : this.#next, end, []);
    for (const [level, first] of this.#firsts) {
      const from = tree === null ? Math.max(countIn(head, level), first) : first;
      const nodes = this.#upper.filter((node) => node.level === level && node.number >= from);
      await this.#compare(level, from, end, nodes);
    }
    for (const level of [1, ...UPPER_LEVELS]) await this.#findMissingBefore(level, builtTo);
    const missing = this.#missing.flatMap(({ level, from, to }) => {
      const last = Math.min(to, countIn(builtTo, level) - 1);
      return from <= last ? [{ level, from, to: last }] : [];
    });
    return { wrong: this.#wrong, missing };
  }

  /** Compares the stored nodes of a level in a range with the true ones. */
  async #compare(level: number, from: number, to: number, nodes: readonly Node[]): Promise<void> {
    const rows = await selectNodes(this.#client, { level, from: String(from), to: String(to) });
    const stored = new Map(rows.map(({ number, hash }) => [Number(number), hash]));
    for (const { number, hash } of nodes) {
      const there = stored.get(number);
      stored.delete(number);
      if (there === undefined) this.#addMissing(level, number, number);
      else if (!there.equals(hash)) this.#wrong.push({ level, number });
    }
    for (const number of stored.keys()) this.#wrong.push({ level, number });
  }

  #addMissing(level: number, from: number, to: number): void {
    const before = this.#missing.at(-1);
    if (before?.level === level && before.to === from - 1) before.to = to;
    else this.#missing.push({ level, from, to });
  }

  /** Finds gaps among the nodes before the first event, which can't be compared. */
  async #findMissingBefore(level: number, builtTo: number): Promise<void> {
    const end = Math.min(countIn(builtTo, level), Math.ceil((this.#first - 1) / NODE_CHILDREN ** level));
    if (end === 0) return;
    const nodes = db
      .selectFrom('daybook.log_node')
      .select('number')
      .where('shard', '=', SHARD)
      .where('level', '=', level)
      .where('number', '>=', '0')
      .where('number', '<', String(end));
    const stored = db.selectNoFrom(sql<string>`-1`.as('number')).unionAll(nodes);
    const gaps = db
      .selectFrom(stored.as('stored'))
      .select(['number', sql<string>`lead(number, 1, ${end}::bigint) over (order by number)`.as('next')]);
    const query = db
      .selectFrom(gaps.as('gaps'))
      .select(['number', 'next'])
      .where('next', '>', sql<string>`number + 1`)
      .orderBy('number')
      .limit(FINDINGS_MAX);
    for (const { number, next } of await rowsOf(this.#client, query))
      this.#addMissing(level, Number(number) + 1, Number(next) - 1);
  }
}
