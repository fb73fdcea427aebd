import { LIVE_HEARTBEAT_MS, LIVE_PING_MS, VIEWER_CLOSE_MS } from '#server/feed/bounds.ts';
import { type Audience, audienceOf, messageBytes, wants } from '#server/feed/audience.ts';
import type { FrameOf } from '#server/contract/frames.ts';
import { CLOSE_CODES } from '#server/contract/live-protocol.ts';
import type { LivePage } from '#server/feed/page.ts';
import type { Scope } from '#server/read/scope.ts';
import type { Viewer } from '#server/feed/viewer.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** Viewers that get the same bytes. */
type Group = { audience: Audience; members: Set<Viewer> };

/** The viewers of one process: sends them messages, and checks their permissions and connections. */
export class Viewers {
  readonly #readModel: ReadModel;
  readonly #groups = new Map<string, Group>();
  #pingedMs = performance.now();

  constructor(readModel: ReadModel) {
    this.#readModel = readModel;
  }

  add(viewer: Viewer): void {
    const { audience } = viewer;
    const group = this.#groups.get(audience.id);
    if (group) group.members.add(viewer);
    else this.#groups.set(audience.id, { audience, members: new Set([viewer]) });
  }

  delete(viewer: Viewer): void {
    const group = this.#groups.get(viewer.audience.id);
    group?.members.delete(viewer);
    if (group?.members.size === 0) this.#groups.delete(viewer.audience.id);
  }

  /** Sends a page of the log, which begins after `from`. */
  sendPage(page: LivePage, from: number): void {
    for (const { audience, members } of this.#groups.values()) {
      const shared = page.messagesFor(audience, from);
      for (const viewer of members) {
        // A viewer that was connected to a server ahead has had some of this page.
        if (viewer.position >= page.position) continue;
        viewer.receivePage(
          viewer.position === from ? shared : page.messagesFor(audience, viewer.position),
          page.position,
        );
      }
    }
  }

  /** Sends progress to viewers that have reached `position`; for others it would be out of order. */
  sendProgress(calls: readonly FrameOf<'progress'>[], position: number): void {
    this.#send(position, (audience) => calls.filter((call) => wants(audience, call)));
  }

  /** Sends quotas in the same way. A filter of requests doesn't apply to them. */
  sendQuotas(quotas: readonly FrameOf<'quota'>[], position: number): void {
    this.#send(position, ({ scope }) => quotas.filter((quota) => concerns(scope, quota)));
  }

  #send(position: number, framesFor: (audience: Audience) => readonly object[]): void {
    const at = this.#now();
    for (const { audience, members } of this.#groups.values()) {
      const frames = framesFor(audience);
      if (frames.length === 0) continue;
      const message = messageBytes(
        position,
        at,
        frames.map((frame) => JSON.stringify(frame)),
      );
      for (const viewer of members) if (viewer.position === position) viewer.send(message);
    }
  }

  /** Checks every viewer: its permission, backpressure and liveness. */
  checkAll(position: number): void {
    const nowMs = performance.now();
    const isPing = nowMs - this.#pingedMs >= LIVE_PING_MS;
    if (isPing) this.#pingedMs = nowMs;
    const heartbeat = messageBytes(position, this.#now(), []);
    for (const viewer of this.#all()) {
      if (endWhereOver(viewer)) continue;
      viewer.check(nowMs);
      if (isPing) viewer.ping();
      if (viewer.position === position && viewer.isQuiet(nowMs, LIVE_HEARTBEAT_MS)) viewer.send(heartbeat);
    }
  }

  /** Keys, accounts or plans have changed: re-evaluates the affected permissions. */
  reevaluate(accounts: ReadonlySet<string>): void {
    for (const viewer of this.#all()) {
      const { right, audience } = viewer;
      if (!right.concerns(accounts)) continue;
      const judged = right.evaluate();
      if ('code' in judged) viewer.close(judged.code, judged.reason);
      else this.#regroup(viewer, audienceOf(judged, audience.filter, right.isSignedIn));
    }
  }

  /** Closes the connections of those whose right has ended. */
  closeEnded(): void {
    for (const viewer of this.#all()) endWhereOver(viewer);
  }

  /** Ends all connections; resolves when they are closed. */
  async close(): Promise<void> {
    const all = this.#all();
    for (const viewer of all) viewer.close(CLOSE_CODES.going_away, 'the server is ending');
    const timer = setTimeout(() => {
      for (const viewer of all) viewer.terminate();
    }, VIEWER_CLOSE_MS);
    await Promise.all(all.map((viewer) => viewer.closed));
    clearTimeout(timer);
  }

  #regroup(viewer: Viewer, audience: Audience): void {
    if (audience.id === viewer.audience.id) return;
    this.delete(viewer);
    viewer.changeAudience(audience);
    this.add(viewer);
  }

  #all(): Viewer[] {
    return [...this.#groups.values()].flatMap(({ members }) => [...members]);
  }

  #now(): string {
    return new Date(this.#readModel.nowMs()).toISOString();
  }
}

function endWhereOver(viewer: Viewer): boolean {
  const ended = viewer.right.ended();
  if (ended) viewer.close(ended.code, ended.reason);
  return ended !== null;
}

/** A key's holder sees its own limits and its account's, as `GET /v1/usage` does. */
function concerns({ account, key }: Scope, quota: FrameOf<'quota'>): boolean {
  if (account !== null && account !== quota.account) return false;
  return key === null || !quota.subject.startsWith('key/') || quota.subject === `key/${key}`;
}
