import type { ClientBase } from 'pg';
import { compareNodes } from '#db/audit/verify/tables.ts';
import type { AuditTree, Node } from '#db/audit/verify/tree.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';

type Wrong = { level: number; number: number };

/** Levels of nodes above the first: they are few and wait for the end. */
const UPPER_LEVELS = [2, 3, 4, 5, 6];

/** Compares `daybook.log_node` with the tree as it grows. */
export class NodeCheck {
  readonly #client: ClientBase;
  readonly #built: number;
  readonly #upper: Node[] = [];
  readonly #firsts: ReadonlyMap<number, number>;
  readonly #wrong: Wrong[] = [];
  #next: number;
  #asked: Promise<void> = Promise.resolve();

  /** @param built the size up to which the table must have the tree. */
  constructor(client: ClientBase, first: number, built: number) {
    this.#client = client;
    this.#built = built;
    // Nodes that begin before the first event are nobody's to compare.
    const firstOf = (level: number): number => Math.ceil((first - 1) / NODE_CHILDREN ** level);
    this.#next = firstOf(1);
    this.#firsts = new Map(UPPER_LEVELS.map((level) => [level, firstOf(level)]));
  }

  /**
   * Asks for the nodes that were completed since the last call, and waits for what was asked for then: the
   * database has the next page to make.
   */
  async take(tree: AuditTree | null): Promise<void> {
    const completed = (tree?.completed.splice(0) ?? []).filter(({ level, number }) =>
      level === 1 ? number >= this.#next : number >= (this.#firsts.get(level) ?? 0),
    );
    this.#upper.push(...completed.filter(({ level }) => level > 1));
    const nodes = completed.filter(({ level }) => level === 1);
    const last = nodes.at(-1);
    const before = this.#asked;
    if (last !== undefined) this.#asked = this.#compare(this.#next, (this.#next = last.number + 1), nodes);
    this.#asked.catch(() => undefined);
    await before;
  }

  async #compare(from: number, to: number, nodes: readonly Node[]): Promise<void> {
    this.#wrong.push(...(await compareNodes(this.#client, 1, from, to, nodes, this.#built)));
  }

  /**
   * All that the table has otherwise, upper levels and rows for which there are no events included. @param
   * tree null where it broke off on the way.
   */
  async finish(tree: AuditTree | null, head: number): Promise<Wrong[]> {
    await this.take(tree);
    await this.#asked;
    const wrong = this.#wrong;
    const surplusFrom = (level: number): number => Math.floor(head / NODE_CHILDREN ** level);
    wrong.push(
      ...(await compareNodes(
        this.#client,
        1,
        tree === null ? surplusFrom(1) : this.#next,
        Number.MAX_SAFE_INTEGER,
        [],
        this.#built,
      )),
    );
    for (const [level, first] of this.#firsts) {
      const nodes = this.#upper.filter((node) => node.level === level);
      const from = tree === null ? Math.max(surplusFrom(level), first) : first;
      wrong.push(
        ...(await compareNodes(
          this.#client,
          level,
          from,
          Number.MAX_SAFE_INTEGER,
          nodes.filter(({ number }) => number >= from),
          this.#built,
        )),
      );
    }
    return wrong;
  }
}
