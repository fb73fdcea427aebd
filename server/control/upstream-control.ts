import type { Client } from 'pg';
import { deleteCredentials, lockMasterKey, insertCredential } from '#db/secrets/credentials.ts';
import { type Owner, sealSecret } from '#db/secrets/envelope.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { allCredentials } from '#db/fold/upstream.ts';
import { publicId } from '#db/ids.ts';
import type { ControlAppend } from '#db/log/append.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { NamePatterns } from '#db/limits/permissions.ts';
import type { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Config } from '#server/process/config.ts';
import { type Decided } from '#server/control/control-log.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
import { retryConflict } from '#server/control/retry-conflict.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { defineModel, type Reachable, requireModel, retireModel } from '#server/decide/model.ts';
import {
  addCredential,
  addUpstream,
  changeUpstream,
  removeCredential,
  removeUpstream,
  requireUpstream,
} from '#server/decide/upstream.ts';
import { keysToSeal } from '#server/secrets/master-key.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';
import { checkBaseUrl } from '#server/upstreams/addresses.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';

/** The part of the configuration that changes to upstreams depend on. */
export type Configured = Pick<Config, 'upstreams' | 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>;

/** Events, and the rows that are inserted and deleted in the same transaction. */
export type ChangeSet = {
  appends: readonly ControlAppend[];
  /** Credentials added by these events, with their plaintext secrets. */
  seal: readonly (Owner & { secret: string })[];
  /** The ids of credentials removed by these events. */
  remove: readonly string[];
};

/**
 * Changes to upstreams, their credentials and the models routed to them, for the command line and the
 * dashboard. Each method returns the event that it appended, or none if nothing had to change, and throws a
 * `DecisionError` if the change is rejected. Each is a transaction of its own, so the caller must not begin
 * one.
 */
export class UpstreamControl {
  readonly #control: Control;
  readonly #client: Client;
  readonly #config: Configured;

  /** @param client the connection of `control`. */
  constructor(control: Control, client: Client, config: Configured) {
    this.#control = control;
    this.#client = client;
    this.#config = config;
  }

  /** Adds an upstream. It has no credentials yet. */
  addUpstream(name: string, terms: UpstreamTerms): Promise<Change> {
    const configured = new Set(this.#config.upstreams.map((each) => each.name));
    checkAddress(terms);
    return this.#control.decide(async () => {
      const upstream = await this.#control.loadUpstream(name);
      return decided(
        [addUpstream(upstream, { name, terms, actor: this.#control.actor }, configured)],
        upstream,
      );
    });
  }

  /**
   * Changes the terms of an upstream.
   * @param change returns all new terms from the current ones.
   */
  changeUpstream(name: string, change: (terms: UpstreamTerms) => UpstreamTerms): Promise<Change> {
    return this.#control.decide(async () => {
      const upstream = requireUpstream(await this.#control.loadUpstream(name), name);
      const terms = change(upstream.terms);
      // An unchanged address is not checked again: an upstream can be paused even if it couldn't be added
      // today.
      if (terms.base_url !== upstream.terms.base_url || terms.network !== upstream.terms.network)
        checkAddress(terms);
      return decided([changeUpstream(upstream, terms, this.#control.actor)], upstream);
    });
  }

  /** Pauses or resumes an upstream. */
  pauseUpstream(name: string, paused: boolean): Promise<Change> {
    return this.changeUpstream(name, (terms) => ({ ...terms, paused }));
  }

  /** Removes an upstream and its credentials permanently. */
  removeUpstream(name: string): Promise<Change> {
    return this.#changeAtomically(async () => {
      const { directory } = await this.#control.load();
      const upstream = requireUpstream(directory.upstream(name), name);
      const { events, version } = decided(
        [removeUpstream(upstream, directory.models, this.#control.actor)],
        upstream,
      );
      return { events, version, seal: [], remove: allCredentials(upstream).map(({ id }) => id) };
    });
  }

  /** Adds a credential. Its secret is encrypted and never shown again. */
  async addCredential(
    name: string,
    command: { label: string; secret: string; purpose?: 'billing' },
  ): Promise<Change & { id: string; last4: string }> {
    const id = publicId();
    let last4 = '';
    const change = await this.#changeAtomically(async () => {
      // Before anything is read, so that concurrent additions are serialized.
      await lockMasterKey(this.#client);
      const upstream = requireUpstream(await this.#control.loadUpstream(name), name);
      const event = addCredential(upstream, { id, ...command, actor: this.#control.actor });
      ({ last4 } = event);
      return {
        ...decided([event], upstream),
        seal: [{ id, upstream: name, secret: command.secret }],
        remove: [],
      };
    });
    return { ...change, id, last4 };
  }

  /** Removes a credential permanently. */
  removeCredential(name: string, id: string): Promise<Change> {
    return this.#changeAtomically(async () => {
      const upstream = requireUpstream(await this.#control.loadUpstream(name), name);
      return {
        ...decided([removeCredential(upstream, id, this.#control.actor)], upstream),
        seal: [],
        remove: [id],
      };
    });
  }

  /** Defines the targets of a model, or replaces them. */
  defineModel(name: string, terms: ModelTerms): Promise<Change> {
    return this.#control.decide(async () => {
      const { directory } = await this.#control.load();
      const model = directory.model(name);
      return decided(
        [defineModel(model, { name, terms, actor: this.#control.actor }, reachable(directory, this.#config))],
        model,
      );
    });
  }

  /** Removes the definition of a model. */
  retireModel(name: string): Promise<Change> {
    return this.#control.decide(async () => {
      const { directory } = await this.#control.load();
      const model = requireModel(directory.model(name), name);
      return decided([retireModel(model, reachable(directory, this.#config), this.#control.actor)], model);
    });
  }

  /**
   * Appends the events of an earlier decision and changes the rows that belong to them, atomically.
   * @returns the position of the last event.
   * @throws {ConflictError} when the state changed since the decision.
   */
  commit(changes: ChangeSet): Promise<number> {
    return inTransaction(this.#client, () => this.#append(changes));
  }

  /** Decides and appends within one transaction; once more after a conflict with a concurrent change. */
  #changeAtomically(decide: () => Promise<Decided & Pick<ChangeSet, 'seal' | 'remove'>>): Promise<Change> {
    return retryConflict(() =>
      inTransaction(this.#client, async () => {
        const { events, version, seal, remove } = await decide();
        const last = events.at(-1);
        if (!last) return UNCHANGED;
        const appends = events.map((event, index) => ({ event, version: version + index }));
        return { event: { type: last.type, position: await this.#append({ appends, seal, remove }) } };
      }),
    );
  }

  /**
   * Changes the rows first, because all other writers wait from the append to the commit. Credentials are
   * deleted before others are inserted, so that a new master key can be created if none is left.
   */
  async #append({ appends, seal, remove }: ChangeSet): Promise<number> {
    if (remove.length > 0) await deleteCredentials(this.#client, remove);
    if (seal.length > 0) {
      await lockMasterKey(this.#client);
      const keys = await keysToSeal(this.#client, masterKeyFile(this.#config));
      for (const { secret, ...owner } of seal)
        await insertCredential(this.#client, { ...owner, ...sealSecret(keys, owner, secret) });
    }
    return this.#control.append(appends);
  }
}

/** The valid targets of models. */
export function reachable(
  { upstreams, models }: Pick<UpstreamDirectory, 'upstreams' | 'models'>,
  { upstreams: configured }: Pick<Configured, 'upstreams'>,
): Reachable {
  const active = [...upstreams].filter(({ state }) => state === 'active');
  const listed = new NamePatterns([
    ...active.flatMap(({ terms }) => terms.models),
    ...configured.flatMap((each) => each.models),
  ]);
  return {
    upstreams: new Set([...active, ...configured].map(({ name }) => name)),
    models,
    isListed: (name) => listed.has(name),
  };
}

/** @throws {DecisionError} when calls must not be sent to the address. */
function checkAddress({ base_url, network }: UpstreamTerms): void {
  const fault = base_url === undefined ? null : checkBaseUrl(base_url, network);
  if (fault !== null) throw new DecisionError('invalid', fault);
}

function decided(events: readonly (ControlEvent | null)[], before: { version: number } | undefined): Decided {
  return { events: events.filter((event) => event !== null), version: (before?.version ?? 0) + 1 };
}
