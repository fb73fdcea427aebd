import { setImmediate } from 'node:timers/promises';
import type { TrustedKeys } from '#db/audit/verify/evidence.ts';
import { isProvedTile, type LeafTiles, tileOf } from '#db/audit/verify/evidence-tiles.ts';
import type { ClaimCheck, Told } from '#db/audit/verify/claims.ts';
import { judge } from '#db/audit/verify/verdict.ts';
import type { Page } from '#db/audit/verify/pages.ts';
import type { PartCounter } from '#db/audit/verify/parts.ts';
import { type Finding, FINDINGS_MAX, type Report } from '#db/audit/verify/report.ts';
import type { Streams } from '#db/audit/verify/streams.ts';
import { type ControlRow, type Start, Verifier } from '#db/audit/verify/verifier.ts';
import type { Head } from '#db/tlog/merkle.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';

/**
 * Events that are gone through at once: a moment, after which what has come from the database is taken from
 * the wire.
 */
const EVENTS_AT_ONCE = 500;

/** What a verification is made of, wherever the events come from. */
export type Parts = {
  logId: string;
  start: Start;
  tiles: LeafTiles;
  published: string | undefined;
  keys: TrustedKeys;
  claims: ClaimCheck;
  streams: Streams;
  parts: PartCounter;
};

/**
 * One reading of a log: its pages in order, its checkpoints as the tree reaches them, and in the end what is
 * wrong.
 */
export class Session {
  readonly #of: Parts;
  readonly verifier: Verifier;
  /** Checkpoints that the tree has not reached, smallest first. */
  #told: Told[] = [];
  readonly #first: number;
  /** What was found in the tables beside the log. */
  readonly beside: Finding[] = [];
  readonly nodes: { level: number; number: number }[] = [];

  constructor(of: Parts) {
    this.#of = of;
    this.#first = of.start.first;
    this.verifier = new Verifier(of.start, of.tiles, of.parts);
  }

  /** Adds checkpoints that are to be compared when the tree is so far. */
  tell(told: readonly (Told | null)[]): void {
    const added = told.filter((each) => each !== null);
    if (added.length === 0) return;
    this.#told = [...this.#told, ...added].toSorted(
      (one, other) => one.checkpoint.size - other.checkpoint.size,
    );
    this.verifier.wanted = [...new Set(this.#told.map(({ checkpoint }) => checkpoint.size))];
  }

  /** @param leavesAfter those that the last batch goes on with. @returns the control events of the page. */
  async take(
    { rows, batches, unreadable, upTo }: Pick<Page, 'rows' | 'batches' | 'unreadable' | 'upTo'>,
    leavesAfter: readonly Buffer[] = [],
  ): Promise<ControlRow[]> {
    const { verifier } = this;
    // Of each event that comes, not of the stretch: a position that was changed may be far away.
    await this.#of.tiles.load([
      ...rows.map(({ position }) => position),
      ...leavesAfter.map((_, index) => upTo + 1 + index),
    ]);
    let at = 0;
    const rowsTo = (last: number): void => {
      for (let row = rows[at]; row !== undefined && !(row.position > last); row = rows[++at]) {
        this.#skipUnreadable(unreadable, row.position);
        verifier.takeRow(row);
      }
    };
    let rested = 0;
    for (const [index, batch] of batches.entries()) {
      rowsTo(Number(batch.lastPosition));
      if (at - rested >= EVENTS_AT_ONCE) {
        await setImmediate();
        rested = at;
      }
      this.#skipUnreadable(unreadable, Number(batch.lastPosition) + 1);
      if (index === batches.length - 1 && leavesAfter.length > 0) verifier.takeLeaves(leavesAfter);
      verifier.takeBatch(batch);
    }
    rowsTo(Number.POSITIVE_INFINITY);
    this.#skipUnreadable(unreadable, Number.POSITIVE_INFINITY);
    const controls = verifier.takeControls();
    for (const control of controls) this.takeControl(control, 'log');
    this.#compareTold(verifier.taken);
    return controls;
  }

  /** Nothing comes any more. @param head where the log ends. */
  finish(head: number): void {
    this.verifier.finish(head);
    this.#compareTold(head);
  }

  /** A control event that is not read in its place, since that is not at hand. */
  takeControl(control: ControlRow, table: string): void {
    this.#of.streams.take(control, table);
    const { event, position } = control;
    if (event?.type === 'log.signer_changed') this.#of.keys.tell(event.verifier_key, position);
    if (event?.type === 'log.epoch_started') this.#of.claims.giveUp(event.epoch - 1, position);
  }

  /** Whether the leaf of an event that is read apart is another than the published one. */
  async isUnlikePublished(position: number, leaf: Buffer): Promise<boolean> {
    await this.#of.tiles.load([position]);
    return this.#of.tiles.compare(position, leaf).different.length > 0;
  }

  /** Compares the checkpoints that the tree has reached. */
  #compareTold(upTo: number): void {
    while (this.#told[0] !== undefined && this.#told[0].checkpoint.size <= upTo) {
      const told = this.#told.shift() as Told;
      this.#of.claims.compare(told, this.verifier.roots.get(told.checkpoint.size) ?? null);
    }
    for (const size of this.verifier.roots.keys())
      if (this.#told[0] === undefined || size < this.#told[0].checkpoint.size)
        this.verifier.roots.delete(size);
  }

  /** Those of more events than there are. */
  left(): Told[] {
    return this.#told.splice(0);
  }

  /** Whether there is so much to say that nobody needs more. */
  get isFull(): boolean {
    return this.verifier.found + this.#of.streams.findings.length >= FINDINGS_MAX;
  }

  #skipUnreadable(unreadable: Page['unreadable'], before: number): void {
    while (unreadable[0] !== undefined && unreadable[0].position < before) {
      const { position, problem } = unreadable.shift() as Page['unreadable'][number];
      this.verifier.findings.push({ position, table: 'log', problem });
      if (position >= this.verifier.next) this.verifier.skip(position);
    }
  }

  /** What all of it comes to. @param proof a signed head that tiles are proved by. */
  async report(proof: Head | null, direct: readonly Finding[]): Promise<Report> {
    const { verifier } = this;
    const { claims, streams, keys, logId, published } = this.#of;
    const tiles = new Map<number, boolean>();
    const isProved = async (position: number): Promise<boolean> => {
      if (published === undefined || proof === null || position > proof.size) return false;
      const tile = tileOf(position);
      if (!tiles.has(tile)) tiles.set(tile, await isProvedTile(published, tile, proof));
      return tiles.get(tile) === true;
    };
    const different: number[] = [];
    for (const position of verifier.different.slice(0, FINDINGS_MAX))
      if (await isProved(position)) different.push(position);
    for (const broken of verifier.broken.slice(0, FINDINGS_MAX)) {
      for (let at = broken.from; at <= broken.to && broken.leaves !== 'unknown'; at += NODE_CHILDREN)
        if (!(await isProved(at)) || !(await isProved(broken.to))) broken.leaves = 'unknown';
    }
    const falseTiles = [...tiles].flatMap(([tile, isGood]): Finding[] =>
      isGood
        ? []
        : [
            {
              position: tile * NODE_CHILDREN + 1,
              table: 'published',
              problem: `the tile of positions ${tile * NODE_CHILDREN + 1} and on is not what the checkpoint covers`,
            },
          ],
    );
    const findings = judge({
      direct: [...verifier.findings, ...streams.findings, ...direct],
      different,
      broken: verifier.broken,
      contradiction: claims.contradiction,
      nodes: this.nodes,
      covered: claims.covered,
      beside: [...claims.findings, ...this.beside, ...falseTiles],
    });
    return {
      log_id: logId,
      first: this.#first,
      head: verifier.next - 1,
      events: verifier.events,
      batches: verifier.batches,
      checkpoints: claims.agreed,
      root: verifier.tree?.root().toString('base64') ?? null,
      covered: claims.covered,
      published_at: claims.publishedAt,
      trust: keys.trust,
      notes: claims.notes,
      findings,
    };
  }
}
