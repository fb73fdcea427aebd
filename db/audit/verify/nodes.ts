import type { ClientBase } from 'pg';
import type { AuditTree, Node } from '#db/audit/verify/tree.ts';
import { SHARD } from '#db/log/append.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';

type NodeId = { level: number; number: number };

/** The levels above the first, which have few nodes and are compared at the end. */
const UPPER_LEVELS = [2, 3, 4, 5, 6];

/** Compares `daybook.log_node` with the tree as it grows. */
export class NodeCheck {
  readonly #client: ClientBase;
  readonly #built: number;
  readonly #upper: Node[] = [];
  readonly #firsts: ReadonlyMap<number, number>;
  readonly #wrong: NodeId[] = [];
  #next: number;
  #comparison: Promise<void> = Promise.resolve();

  /** @param built the size up to which the table must be complete. */
  constructor(client: ClientBase, first: number, built: number) {
    this.#client = client;
    this.#built = built;
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
      this.#comparison = this.#compare(this.#next, (this.#next = last.number + 1), nodes);
    this.#comparison.catch(() => undefined);
    await before;
  }

  async #compare(from: number, to: number, nodes: readonly Node[]): Promise<void> {
    this.#wrong.push(...(await compareNodes(this.#client, 1, from, to, nodes, this.#built)));
  }

  /**
   * Compares the upper levels, and finds rows beyond the log. @param tree null if an event was unreadable.
   * @returns the nodes that differ.
   */
  async finish(tree: AuditTree | null, head: number): Promise<NodeId[]> {
    await this.compareCompleted(tree);
    await this.#comparison;
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

/** Compares the stored nodes of a level in a range with the true ones. @returns those that differ. */
async function compareNodes(
  client: ClientBase,
  level: number,
  from: number,
  to: number,
  nodes: readonly Node[],
  builtTo: number,
): Promise<{ level: number; number: number }[]> {
  const { rows } = await client.query<[string, Buffer]>({
    name: 'verify_nodes',
    text: `select number, hash from daybook.log_node where shard = $1 and level = $2 and number >= $3
      and number < $4`,
    values: [SHARD, level, from, to],
    rowMode: 'array',
  });
  const stored = new Map(rows.map(([number, hash]) => [Number(number), hash]));
  const wrong: number[] = [];
  for (const { number, hash } of nodes) {
    const there = stored.get(number);
    stored.delete(number);
    if (there === undefined ? (number + 1) * NODE_CHILDREN ** level <= builtTo : !there?.equals(hash))
      wrong.push(number);
  }
  return [...wrong, ...stored.keys()].map((number) => ({ level, number }));
}
