import type { Client } from 'pg';
import { deleteCredentials, lockMasterKey, insertCredential } from '#db/secrets/credentials.ts';
import { type Owner, sealSecret } from '#db/secrets/envelope.ts';
import type { ControlEvent } from '#db/events/events.ts';
import { publicId } from '#db/ids.ts';
import { ConflictError, type ControlAppend } from '#db/log/append.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { NamePatterns } from '#db/limits/permissions.ts';
import type { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import type { Config } from '#server/process/config.ts';
import { type Decided } from '#server/control/control-log.ts';
import { type Change, UNCHANGED } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
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

/** What the control of upstreams needs to know of the configuration. */
export type Configured = Pick<Config, 'upstreams' | 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE'>;

/** Events, and the rows that come and go with them. */
export type Together = {
  appends: readonly ControlAppend[];
  /** Credentials whose events are among them, with their secrets in clear. */
  seal: readonly (Owner & { secret: string })[];
  /** The ids of credentials that end with them. */
  remove: readonly string[];
};

/**
 * Changes to upstreams, their credentials, and the models that go to them, for the command line and
 * the dashboard alike. Each says which event it appended, none where nothing had to change, and throws
 * a `DecisionError` where it can't be carried out. Each is a transaction of its own: don't begin one.
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
   * Gives an upstream other terms.
   * @param change makes them of those that it has, all of them.
   */
  changeUpstream(name: string, change: (terms: UpstreamTerms) => UpstreamTerms): Promise<Change> {
    return this.#control.decide(async () => {
      const upstream = requireUpstream(await this.#control.loadUpstream(name), name);
      const terms = change(upstream.terms);
      // One that is only paused need not be what would be added today.
      if (terms.base_url !== upstream.terms.base_url || terms.network !== upstream.terms.network)
        checkAddress(terms);
      return decided([changeUpstream(upstream, terms, this.#control.actor)], upstream);
    });
  }

  /** Stops or resumes what is sent to an upstream. */
  pauseUpstream(name: string, paused: boolean): Promise<Change> {
    return this.changeUpstream(name, (terms) => ({ ...terms, paused }));
  }

  /** Removes an upstream, and its credentials for good. */
  removeUpstream(name: string): Promise<Change> {
    return this.#together(async () => {
      const { directory } = await this.#control.load();
      const upstream = requireUpstream(directory.upstream(name), name);
      const { events, version } = decided(
        [removeUpstream(upstream, directory.models, this.#control.actor)],
        upstream,
      );
      return { events, version, seal: [], remove: upstream.credentials.map(({ id }) => id) };
    });
  }

  /** Adds a credential. Its secret is sealed, and never shown again. */
  async addCredential(
    name: string,
    command: { label: string; secret: string },
  ): Promise<Change & { id: string; last4: string }> {
    const id = publicId();
    let last4 = '';
    const change = await this.#together(async () => {
      // First of all, so that of those who add at once each decides on what the one before has left.
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

  /** Removes a credential for good. */
  removeCredential(name: string, id: string): Promise<Change> {
    return this.#together(async () => {
      const upstream = requireUpstream(await this.#control.loadUpstream(name), name);
      return {
        ...decided([removeCredential(upstream, id, this.#control.actor)], upstream),
        seal: [],
        remove: [id],
      };
    });
  }

  /** Says where the calls of a model go, the first time or anew. */
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

  /** Ends a model's own directions. */
  retireModel(name: string): Promise<Change> {
    return this.#control.decide(async () => {
      const { directory } = await this.#control.load();
      const model = requireModel(directory.model(name), name);
      return decided([retireModel(model, reachable(directory, this.#config), this.#control.actor)], model);
    });
  }

  /**
   * Appends what was decided before with the rows that belong to it, all of it or nothing.
   * @returns the position of the last event.
   * @throws {ConflictError} when it was decided on what is no longer so.
   */
  carryOut(together: Together): Promise<number> {
    return inTransaction(this.#client, () => this.#append(together));
  }

  /** Decides and appends within one transaction; once more where somebody else was faster. */
  async #together(decide: () => Promise<Decided & Pick<Together, 'seal' | 'remove'>>): Promise<Change> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await inTransaction(this.#client, async () => {
          const { events, version, seal, remove } = await decide();
          const last = events.at(-1);
          if (!last) return UNCHANGED;
          const appends = events.map((event, index) => ({ event, version: version + index }));
          return { event: { type: last.type, position: await this.#append({ appends, seal, remove }) } };
        });
      } catch (error) {
        if (!(error instanceof ConflictError) || attempt === 2) throw error;
      }
    }
  }

  /**
   * Rows go first: from the append to the commit everybody else waits. Those that end make room for a new
   * master key.
   */
  async #append({ appends, seal, remove }: Together): Promise<number> {
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

/** What models may be directed to. */
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

/** @throws {DecisionError} where nothing may be sent to. */
function checkAddress({ base_url, network }: UpstreamTerms): void {
  const fault = base_url === undefined ? null : checkBaseUrl(base_url, network);
  if (fault !== null) throw new DecisionError('invalid', fault);
}

function decided(events: readonly (ControlEvent | null)[], before: { version: number } | undefined): Decided {
  return { events: events.filter((event) => event !== null), version: (before?.version ?? 0) + 1 };
}
