/** A conversation that a connection keeps, so that its client sends only the items that are new. */
export class Context {
  readonly owner: string;
  /** Its items, without the brackets of their list; null: it was dropped. */
  items: Buffer | null;

  constructor(owner: string, items: Buffer) {
    this.owner = owner;
    this.items = items;
  }
}

/**
 * The conversations of all connections of a process. Both their total and the part of one key are bounded:
 * the least recently used are dropped.
 */
export class Contexts {
  readonly #bytesMax: number;
  readonly #bytesPerOwnerMax: number;
  /** The least recently used first. */
  readonly #all = new Set<Context>();
  readonly #bytesOf = new Map<string, number>();
  #bytes = 0;

  constructor(limits: { bytes: number; bytesPerOwner: number }) {
    this.#bytesMax = limits.bytes;
    this.#bytesPerOwnerMax = limits.bytesPerOwner;
  }

  /** The bytes that it holds. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps a conversation. It may be dropped at once. */
  add(owner: string, items: Buffer): Context {
    const context = new Context(owner, items);
    this.#all.add(context);
    this.#count(owner, items.length);
    this.#bound(owner);
    return context;
  }

  /** Replaces the items of a conversation, unless it was dropped. */
  replace(context: Context, items: Buffer): void {
    if (context.items === null) return;
    this.#count(context.owner, items.length - context.items.length);
    context.items = items;
    this.used(context);
    this.#bound(context.owner);
  }

  used(context: Context): void {
    if (this.#all.delete(context)) this.#all.add(context);
  }

  drop(context: Context): void {
    if (!this.#all.delete(context)) return;
    this.#count(context.owner, -(context.items?.length ?? 0));
    context.items = null;
  }

  #bound(owner: string): void {
    for (const context of this.#all) {
      const isOwnerOver = (this.#bytesOf.get(owner) ?? 0) > this.#bytesPerOwnerMax;
      if (this.#bytes <= this.#bytesMax && !isOwnerOver) return;
      if (this.#bytes > this.#bytesMax || context.owner === owner) this.drop(context);
    }
  }

  #count(owner: string, bytes: number): void {
    this.#bytes += bytes;
    const held = (this.#bytesOf.get(owner) ?? 0) + bytes;
    if (held === 0) this.#bytesOf.delete(owner);
    else this.#bytesOf.set(owner, held);
  }
}
