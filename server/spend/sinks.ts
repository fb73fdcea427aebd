import { sql, type UpdateObject } from 'kysely';
import type { Client } from 'pg';
import { readHead } from '#db/log/read.ts';
import type { SinkEvent } from '#db/events/subjects.ts';
import { SinkName } from '#db/events/sink-events.ts';
import { publicId } from '#db/ids.ts';
import { countOf, db, rowOf } from '#db/schema/query.ts';
import type { Tables } from '#db/schema/tables.ts';
import { sealSinkConfig } from '#db/spend/seal-sink-config.ts';
import { SinkConfig } from '#db/spend/sink-config.ts';
import { RESTORED_FAULT } from '#db/spend/sink-status.ts';
import { SINKS_MAX } from '#server/control/bounds.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
import { retryConflict } from '#server/control/retry-conflict.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';

/**
 * Adds, pauses, moves and removes sinks: rows and events in one transaction. Each change is a transaction of
 * its own, so the caller must not begin one.
 */
export class SinkControl {
  readonly #control: Control;
  readonly #client: Client;

  /** @param client the connection of `control`. */
  constructor(control: Control, client: Client) {
    this.#control = control;
    this.#client = client;
  }

  /**
   * Adds a sink, or replaces the configuration of the one with this name, which keeps its position.
   * @throws {DecisionError} when the configuration is invalid, or there are too many sinks.
   */
  async configure(pepper: Buffer, wanted: NewSink): Promise<Change & Configured> {
    const { name, account } = wanted;
    const known = await this.#find(name);
    if (known === undefined) return this.add(pepper, wanted);
    if (known.account !== account) throw isAnother(name, known);
    return this.replace(pepper, name, wanted.config);
  }

  /** Replaces the configuration of a sink, which keeps its place. @throws {DecisionError} as {@link add}. */
  async replace(pepper: Buffer, name: string, wanted: SinkConfig): Promise<Change & Configured> {
    const config = checkConfig(name, wanted);
    const { kind } = config;
    let found: Configured = { id: '', position: 0, is_new: false };
    const change = await this.#changeAtomically(name, async () => {
      const known = await this.#require(name);
      if (known.kind !== kind) throw isAnother(name, known);
      found = { ...found, id: known.id, position: Number(known.position) };
      await this.#set(known.id, { sealed_config: sealSinkConfig(pepper, known.id, config), ...AT_ONCE });
      return { type: 'sink.configured', sink: name, kind, ...onlyOf(known), actor: this.#control.actor };
    });
    return { ...change, ...found };
  }

  /** Adds a sink. @throws {DecisionError} when it exists or is invalid, or there are too many sinks. */
  async add(pepper: Buffer, wanted: NewSink): Promise<Change & Configured> {
    const { name, account } = wanted;
    const config = checkConfig(name, wanted.config);
    const { kind } = config;
    let found: Configured = { id: '', position: 0, is_new: true };
    const change = await this.#changeAtomically(name, async () => {
      const known = await this.#find(name);
      if (known !== undefined) throw isAnother(name, known);
      const position = wanted.after === 'now' ? await readHead(this.#client) : wanted.after;
      await this.#requirePosition(position);
      found = { ...found, id: publicId(), position };
      await this.#insert({ ...found, name, kind, account }, sealSinkConfig(pepper, found.id, config));
      const actor = this.#control.actor;
      return { type: 'sink.configured', sink: name, kind, ...onlyOf({ account }), position, actor };
    });
    return { ...change, ...found };
  }

  /** @throws {DecisionError} when there is no such sink. */
  remove(name: string): Promise<Change> {
    return this.#changeAtomically(name, async () => {
      const { id } = await this.#require(name);
      await countOf(this.#client, db.deleteFrom('daybook.sink').where('id', '=', id));
      return { type: 'sink.removed', sink: name, actor: this.#control.actor };
    });
  }

  /** Stops deliveries; a running delivery can be received. @throws {DecisionError} as {@link remove}. */
  pause(name: string): Promise<Change> {
    return this.#changeAtomically(name, async () => {
      const { id, paused_at } = await this.#require(name);
      if (paused_at !== null) return null;
      await this.#set(id, { paused_at: sql<Date>`statement_timestamp()` });
      return { type: 'sink.paused', sink: name, actor: this.#control.actor };
    });
  }

  /** Delivers again, and at once where deliveries failed. @throws {DecisionError} as {@link remove}. */
  resume(name: string): Promise<Change> {
    return this.#changeAtomically(name, async () => {
      const { id, paused_at, fault } = await this.#require(name);
      const isRestored = paused_at !== null && fault === RESTORED_FAULT;
      await this.#set(id, { paused_at: null, retry_at: null, ...(isRestored ? { fault: null } : {}) });
      return paused_at === null ? null : { type: 'sink.resumed', sink: name, actor: this.#control.actor };
    });
  }

  /**
   * Asks a worker for a test event, which no receiver counts; a paused sink is tested, too.
   * @throws {DecisionError} as {@link remove}.
   */
  async test(name: string): Promise<{ id: string }> {
    const { id } = await this.#require(name);
    const requested = { test_requested_at: sql<Date>`statement_timestamp()` };
    await this.#set(id, { ...requested, test_taken_at: null, tested_at: null, test_fault: null });
    return { id };
  }

  /**
   * Continues behind another position: an earlier one repeats events, a later one leaves events out.
   * @throws {DecisionError} when there is no such sink, or the log has no such position.
   */
  async rewind(name: string, position: number): Promise<Change & { from: number }> {
    let from = position;
    const change = await this.#changeAtomically(name, async () => {
      const known = await this.#require(name);
      from = Number(known.position);
      await this.#requirePosition(position);
      if (from === position) return null;
      await this.#set(known.id, { position: String(position), ...AT_ONCE });
      const { actor } = this.#control;
      return { type: 'sink.rewound', sink: name, from_position: from, position, actor };
    });
    return { ...change, from };
  }

  async #insert(
    {
      id,
      name,
      kind,
      account,
      position,
    }: { id: string; name: string; kind: string; account: string | null; position: number },
    sealed: Buffer,
  ): Promise<void> {
    const row = db
      .selectNoFrom([
        sql.val(id).as('id'),
        sql.val(name).as('name'),
        sql.val(kind).as('kind'),
        sql.val(sealed).as('sealed_config'),
        sql.val(account).as('account'),
        sql<string>`${position}::bigint`.as('position'),
      ])
      .where(
        ({ selectFrom }) => selectFrom('daybook.sink').select(({ fn }) => fn.countAll<number>().as('count')),
        '<',
        SINKS_MAX,
      );
    const insert = db
      .insertInto('daybook.sink')
      .columns(['id', 'name', 'kind', 'sealed_config', 'account', 'position'])
      .expression(row);
    if ((await countOf(this.#client, insert)) === 0)
      throw new DecisionError('not_allowed', `There are ${SINKS_MAX} sinks already. Remove one first.`);
  }

  async #set(id: string, changed: UpdateObject<Tables, 'daybook.sink'>): Promise<void> {
    await countOf(this.#client, db.updateTable('daybook.sink').set(changed).where('id', '=', id));
  }

  #find(name: string) {
    const query = db
      .selectFrom('daybook.sink')
      .select(['id', 'kind', 'account', 'position', 'paused_at', 'fault'])
      .where('name', '=', name);
    return rowOf(this.#client, query);
  }

  async #require(name: string) {
    const found = await this.#find(name);
    if (found === undefined) throw new DecisionError('not_found', `There is no sink "${name}".`);
    return found;
  }

  async #requirePosition(position: number): Promise<void> {
    const head = await readHead(this.#client);
    if (!Number.isSafeInteger(position) || position < 0 || position > head)
      throw new DecisionError('invalid', `The position must be from 0 to ${head}, the newest of the log.`);
  }

  /** Decides and appends within one transaction; once more after a conflict with a concurrent change. */
  #changeAtomically(name: string, decide: () => Promise<SinkEvent | null>): Promise<Change> {
    return retryConflict(() =>
      inTransaction(this.#client, async () => {
        const event = await decide();
        if (event === null) return UNCHANGED;
        const version = (await this.#control.loadVersion(`sink/${name}`)) + 1;
        const position = await this.#control.append([{ event, version }]);
        return { event: { type: event.type, position } };
      }),
    );
  }
}

type NewSink = {
  name: string;
  config: SinkConfig;
  /** The one account whose spend events it gets; null: all. */
  account: string | null;
  /** The position behind which it starts; `now`: with the next event. */
  after: number | 'now';
};
type Configured = { id: string; position: number; is_new: boolean };

const onlyOf = ({ account }: { account: string | null }) =>
  account === null ? {} : { only_account: account };

const isAnother = (name: string, known: { kind: string; account: string | null }): DecisionError =>
  new DecisionError(
    'already_exists',
    `Sink "${name}" is of kind ${known.kind}` +
      `${known.account === null ? '' : ' for one account'}. Remove it first, or choose another name.`,
  );

/** Without waiting for the end of a backoff. */
const AT_ONCE = { failures: 0, failing_since: null, fault: null, retry_at: null };

function checkConfig(name: string, wanted: SinkConfig): SinkConfig {
  if (!SinkName.safeParse(name).success)
    throw new DecisionError('invalid', 'The name must have lower-case letters, digits, ".", "_" and "-".');
  const parsed = SinkConfig.safeParse(wanted);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    // Without the value, which may be a secret.
    throw new DecisionError('invalid', `${issue?.path.join('.') ?? 'configuration'} is not usable.`);
  }
  if (parsed.data.kind === 'kafka' && !parsed.data.tls && parsed.data.sasl?.mechanism === 'plain')
    throw new DecisionError('invalid', 'SASL mechanism plain needs TLS, since it sends the password.');
  if ('url' in parsed.data) {
    const { username, password } = new URL(parsed.data.url);
    if (username !== '' || password !== '')
      throw new DecisionError('invalid', 'The address must have no user and password.');
  }
  return parsed.data;
}
