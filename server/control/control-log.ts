import type { Client } from 'pg';
import type { ControlEvent, Event, EventOf } from '#db/events/events.ts';
import { ACCOUNT_LEVELS } from '#db/events/parts.ts';
import type { Account } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { ManagementKey } from '#db/fold/management-key.ts';
import type { Model } from '#db/fold/model.ts';
import type { Plan } from '#db/fold/plan.ts';
import type { Price } from '#db/fold/price.ts';
import type { Upstream } from '#db/fold/upstream.ts';
import type { InstanceSession } from '#db/instances/instance-session.ts';
import { appendControl, ConflictError, type ControlAppend, isClaimed } from '#db/log/append.ts';
import { EventTooLargeError } from '#db/log/control-line.ts';
import { appendCorrections } from '#db/limits/corrections.ts';
import { AdjustmentError, adjustQuotas, type AllowanceAdjustment } from '#db/limits/adjustments.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import type { CallAttribution, ChargedCall } from '#db/limits/subjects.ts';
import { readCorrected } from '#db/log/read-corrections.ts';
import { readStreams } from '#db/log/read-streams.ts';
import { NO_CORRECTION } from '#db/fold/correction.ts';
import { PAGE_ROWS, type Read, readHead, readRows, UnreadableEventError } from '#db/log/read.ts';
import { readRequest } from '#db/log/read-subject.ts';
import { db, readClock, rowOf } from '#db/schema/query.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import { type ChangeGuard, checkVersion, guardAppends } from '#server/control/change-guard.ts';
import { requireAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { countKeys, type KeyCounts, requireKey } from '#server/decide/key.ts';
import { refuseAdjustment } from '#server/decide/quota.ts';
import type { EndedRequest } from '#server/decide/usage.ts';
import { joined, limitsFor } from '#server/read-model/access.ts';
import { ReadModel } from '#server/read-model/read-model.ts';

/** The instance that changes are appended as, and the numbers of its batches. */
export type BatchNumbers = Pick<InstanceSession, 'instance' | 'nextBatchNo'>;

/** An account, by its name (from the command line) or by its id. */
export type AccountRef = string | { id: string };

/**
 * How a subject is loaded for a change. One with an event that this version can't apply is refused, because a
 * decision would ignore that event, unless the change only takes permissions away.
 */
type LoadOptions = { evenUnapplied?: boolean };

/**
 * The result of a decision: the events to append to one stream, the version of the first, and the changes of
 * allowances that they record.
 */
export type Decided = {
  events: readonly ControlEvent[];
  version: number;
  adjustments?: readonly AllowanceAdjustment[];
};

/**
 * Loads the state that a change is decided on, and appends the resulting events with the version of that
 * state. The state is read from the log itself. A lookup by id reads a few streams, however large the log is;
 * a lookup by name reads all control events.
 */
export class ControlLog {
  readonly #client: Client;
  readonly #batches: BatchNumbers;
  #guard: ChangeGuard | null = null;

  constructor(client: Client, batches: BatchNumbers) {
    this.#client = client;
    this.#batches = batches;
  }

  /**
   * Puts conditions on the next append, and checks them, so that a change without an event is checked, too.
   * @throws {DecisionError} `precondition_failed`, `already_done` or `idempotency_key_reused`.
   */
  async guard(guard: ChangeGuard): Promise<void> {
    this.#guard = guard;
    await this.checkRepeat();
    if (guard.precondition !== null) checkVersion(guard, await this.loadVersion(guard.precondition.stream));
  }

  /** @throws {DecisionError} when the idempotency key of the request was used. */
  async checkRepeat(): Promise<void> {
    const { idempotency = null } = this.#guard ?? {};
    if (idempotency === null || !(await isClaimed(this.#client, idempotency.claim))) return;
    throw (await isClaimed(this.#client, idempotency.fingerprint))
      ? new DecisionError('already_done', 'This was done already, and its reply is not given twice.')
      : new DecisionError(
          'idempotency_key_reused',
          'The idempotency key was sent with another request before. Send each request with its own.',
        );
  }

  /** The whole state as of the log's current head. */
  async load(): Promise<ReadModel> {
    return this.#withClock(await readControlEvents(this.#client));
  }

  /**
   * A key with the state that its calls depend on: its account, that one's parents and the plans that they
   * have had. It reads a few streams, however many keys there are.
   * @throws {DecisionError} when there is no such key, or `relay_outdated`; see {@link LoadOptions}.
   */
  async loadKey(id: string, options: LoadOptions = {}): Promise<{ model: ReadModel; key: Key }> {
    const ofKey = await this.#read([`key/${id}`]);
    const account = eventsOf(ofKey).find((event) => event.type === 'key.created')?.account;
    const ofAccount = account === undefined ? [] : await this.#readWithParents(account);
    const plans = new Set(
      eventsOf(ofAccount).flatMap((event) =>
        event.type === 'account.plan_changed' && event.plan !== null ? [`plan/${event.plan}`] : [],
      ),
    );
    const model = new ReadModel();
    model.apply(
      [...ofKey, ...ofAccount, ...(await this.#read([...plans]))].toSorted(
        (one, other) => one.position - other.position,
      ),
    );
    await this.#withClock(model);
    requireApplied(model, 'key', id, options);
    return { model, key: requireKey(model.key(id), id) };
  }

  /** @throws {DecisionError} when there is no such account, or `relay_outdated`; see {@link LoadOptions}. */
  async loadAccount(ref: AccountRef, options: LoadOptions = {}): Promise<Account> {
    const model = typeof ref === 'string' ? await this.load() : await this.#fold(`account/${ref.id}`);
    return findAccount(model, ref, options);
  }

  /**
   * An account and the number of its keys. It reads all control events.
   * @throws {DecisionError} when there is no such account.
   */
  async loadAccountWithKeys(ref: AccountRef): Promise<{ account: Account; existing: KeyCounts }> {
    const model = await this.load();
    const account = findAccount(model, ref);
    return { account, existing: countKeys(model.keysOf(account.id), new Date(model.nowMs())) };
  }

  /**
   * The limits that usage of an account is charged to, and those of one of its keys. It reads all control
   * events.
   * @param id of the account.
   * @param call who the usage was for, and a call's parent accounts; without them the account's are taken.
   * @throws {DecisionError} when there is no such account or key.
   */
  async loadLimits(
    id: string,
    key: string | null,
    call: CallAttribution & Pick<ChargedCall, 'parents'> = {},
  ): Promise<{ subjects: readonly SubjectLimits[]; nowMs: number }> {
    const model = await this.load();
    const account = findAccount(model, { id });
    if (account.plan !== null) requireApplied(model, 'plan', account.plan);
    const ofKey = key === null ? null : requireKey(model.key(key), key);
    if (ofKey && ofKey.account !== account.id) requireKey(undefined, ofKey.id);
    if (ofKey) requireApplied(model, 'key', ofKey.id);
    const ofAccount = model.charged.ofAccount(account.id, call, call.parents);
    const ofKeyTerms = ofKey && model.keyAccess(ofKey);
    const subjects = ofKeyTerms ? joined(ofAccount, limitsFor(ofKeyTerms, call)) : ofAccount;
    return { subjects, nowMs: model.nowMs() };
  }

  /** The version of a stream; 0 for one without events. */
  async loadVersion(stream: string): Promise<number> {
    const query = db.selectFrom('daybook.stream_head').select('version').where('stream', '=', stream);
    return (await rowOf(this.#client, query))?.version ?? 0;
  }

  /**
   * An ended request with its corrections. It is found by the projection of requests, which may be some
   * seconds behind.
   * @param owner the account that it must be of; null: any.
   * @returns the request, and the head of the log up to which its corrections are known.
   * @throws {DecisionError} when there is no such request, it has not ended, or its end is archived.
   */
  async loadEndedRequest(
    id: string,
    owner: Pick<Account, 'id' | 'name'> | null,
  ): Promise<EndedRequest & { seen: number }> {
    const query = db
      .selectFrom('projection.request')
      .select(['account', 'end_position', 'error_code'])
      .where('request', '=', id);
    const found = await rowOf(this.#client, query);
    if (found === undefined || (owner !== null && found.account !== owner.id))
      throw new DecisionError(
        'not_found',
        owner === null ? `There is no request ${id}.` : `Account "${owner.name}" has no request ${id}.`,
      );
    if (found.end_position === null || found.error_code !== null)
      throw new DecisionError('not_allowed', `Request ${id} still runs, or was rejected without a charge.`);
    const at = Number(found.end_position);
    const [end] = await readRequest(this.#client, id, { from: at, to: at }, 1);
    const event = !end || end instanceof UnreadableEventError ? null : end.event;
    if (event?.type !== 'request.settled' && event?.type !== 'request.abandoned')
      throw new DecisionError(
        'not_allowed',
        `The end of request ${id} at position ${at} is in the archive. Restore it first: ` +
          'daybook archive restore.',
      );
    const seen = await readHead(this.#client);
    const corrected = (await readCorrected(this.#client, [id])).get(id);
    return {
      event,
      added: corrected?.added ?? NO_CORRECTION,
      references: corrected?.references ?? [],
      seen,
    };
  }

  /**
   * Appends corrections of requests; see {@link appendCorrections}.
   * @param seen the head of the log that they were decided at.
   * @throws {ConflictError} when one of the requests was corrected since.
   */
  appendCorrections(seen: number, events: readonly EventOf<'usage.adjusted'>[]): Promise<number> {
    const { instance } = this.#batches;
    return appendCorrections(this.#client, instance, this.#batches.nextBatchNo(), seen, events);
  }

  async loadPlan(name: string): Promise<Plan | undefined> {
    return (await this.#foldApplied('plan', name)).plan(name);
  }

  /** @returns the upstream, even if it was removed. */
  async loadUpstream(name: string): Promise<Upstream | undefined> {
    return (await this.#foldApplied('upstream', name)).directory.upstream(name);
  }

  /** The definition of a model. @returns the model, even if it was retired. */
  async loadModel(name: string): Promise<Model | undefined> {
    return (await this.#foldApplied('dispatch', name)).directory.model(name);
  }

  /** Also if a newer version has changed it: the decisions on it only take permissions away. */
  async loadManagementKey(id: string): Promise<ManagementKey | undefined> {
    return (await this.#fold(`management_key/${id}`)).managementKeys.get(id);
  }

  async loadPrice(pattern: string, plan: string | null = null): Promise<Price | undefined> {
    const [kind, id] = plan === null ? ['model', pattern] : ['plan_price', `${plan}/${pattern}`];
    return (await this.#foldApplied(kind, id)).prices.get(pattern, plan);
  }

  /** The prices set for exactly these names and patterns. */
  async loadPrices(patterns: readonly string[]): Promise<Map<string, Price>> {
    const model = new ReadModel();
    model.apply(await this.#read(patterns.map((pattern) => `model/${pattern}`)));
    for (const pattern of patterns) requireApplied(model, 'model', pattern);
    return new Map(model.prices.all.map((price) => [price.pattern, price]));
  }

  /** Now, by Postgres' clock. */
  now(): Promise<Date> {
    return readClock(this.#client);
  }

  async #fold(stream: string): Promise<ReadModel> {
    const model = new ReadModel();
    model.apply(await this.#read([stream]));
    return model;
  }

  async #foldApplied(kind: string, id: string): Promise<ReadModel> {
    const model = await this.#fold(`${kind}/${id}`);
    requireApplied(model, kind, id);
    return model;
  }

  /** The events of an account, of its parent and of that one's. */
  async #readWithParents(id: string): Promise<Read[]> {
    const found: Read[] = [];
    let account: string | null = id;
    for (let level = 0; level < ACCOUNT_LEVELS && account !== null; level++) {
      const own: Read[] = await this.#read([`account/${account}`]);
      found.push(...own);
      const changes = eventsOf(own).filter((event) => event.type === 'account.parent_changed');
      account = changes.at(-1)?.parent ?? null;
    }
    return found;
  }

  #read(streams: readonly string[]): Promise<Read[]> {
    return readStreams(this.#client, streams);
  }

  async #withClock(model: ReadModel): Promise<ReadModel> {
    model.setClock(await this.now());
    return model;
  }

  /**
   * Loads, decides and appends. On a conflict with a concurrent change, it loads and decides once more.
   * @param claim a unique name that this change takes permanently, so that it is made at most once.
   * @returns the newest appended event; none if nothing had to change.
   * @throws {DecisionError} `already_done` if the claim is taken.
   */
  async decide(decide: () => Promise<Decided>, claim?: string): Promise<Change> {
    for (let attempt = 1; ; attempt++) {
      try {
        const { events, version, adjustments } = await decide();
        const last = events.at(-1);
        if (last === undefined) return UNCHANGED;
        const appends = events.map((event, index) => ({
          event,
          version: version + index,
          ...(claim !== undefined && index === 0 ? { claim } : {}),
        }));
        return { event: { type: last.type, position: await this.append(appends, adjustments) } };
      } catch (error) {
        // A change that was made may have left a state in which it can't be made again.
        const mayBeDone = error instanceof ConflictError || error instanceof DecisionError;
        if (mayBeDone && claim !== undefined && (await isClaimed(this.#client, claim)))
          throw new DecisionError('already_done', 'This was done already, and its reply is not given twice.');
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  /**
   * Appends the events of a decision atomically.
   * @returns the position of the last event.
   * @throws {ConflictError} when the state changed since the decision.
   * @throws {DecisionError} `invalid` when an event is too large, `not_allowed` when a window has too few
   *   units for an adjustment.
   */
  async append(
    appends: readonly ControlAppend[],
    adjustments?: readonly AllowanceAdjustment[],
  ): Promise<number> {
    const guarded = this.#guard === null ? appends : guardAppends(this.#guard, appends);
    const { instance } = this.#batches;
    const batchNo = this.#batches.nextBatchNo();
    try {
      const position =
        adjustments === undefined
          ? await appendControl(this.#client, instance, batchNo, guarded)
          : await adjustQuotas(this.#client, instance, batchNo, adjustments, guarded);
      this.#guard = null;
      return position;
    } catch (error) {
      if (error instanceof AdjustmentError) throw refuseAdjustment(error.adjustment, error.units);
      if (error instanceof EventTooLargeError) throw new DecisionError('invalid', error.message);
      throw error;
    }
  }
}

const eventsOf = (rows: readonly Read[]): Event[] =>
  rows.flatMap((row) => (row instanceof UnreadableEventError ? [] : [row.event]));

/** The state of all control events, up to the log's current head. */
export async function readControlEvents(client: Client): Promise<ReadModel> {
  const model = new ReadModel();
  for (;;) {
    const page = await readRows(client, model.position, 'control');
    model.apply(page);
    if (page.length < PAGE_ROWS) return model;
  }
}

/** @throws {DecisionError} when there is no such account, or `relay_outdated`; see {@link LoadOptions}. */
function findAccount(model: ReadModel, ref: AccountRef, options?: LoadOptions): Account {
  const account =
    typeof ref === 'string'
      ? requireAccount(model.accountNamed(ref), ref)
      : requireAccount(model.account(ref.id), ref.id);
  requireApplied(model, 'account', account.id, options);
  return account;
}

/** @throws {DecisionError} `relay_outdated` if a newer version has changed the subject. */
function requireApplied(
  model: ReadModel,
  kind: string,
  id: string,
  { evenUnapplied = false }: LoadOptions = {},
): void {
  const unapplied = model.unapplied.of(kind, id);
  if (unapplied && !evenUnapplied)
    throw new DecisionError(
      'relay_outdated',
      `The ${kind} ${id} was changed by a newer version (event type ${unapplied.type} at position ` +
        `${unapplied.position}), which this version can't apply. Run the newer version.`,
    );
}
