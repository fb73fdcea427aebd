import type { ClientBase } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { readCredentials } from '#db/secrets/credentials.ts';
import { type MasterKeys, openSecret, UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import type { Upstream } from '#db/fold/upstream.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { ConfigError } from '#server/process/config.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { CREDENTIAL_RETRY_MS } from '#server/upstreams/bounds.ts';

/** A credential that could not be decrypted, with the reason, which contains no part of the secret. */
export type Unopened = { id: string; upstream: string; why: string };

/**
 * Decrypts credentials. One that fails is reported, and the others are returned.
 * @param keys null where this process has no master key.
 * @param ids of the credentials; absent: all.
 * @returns secrets by the credentials' ids.
 */
export async function openCredentials(
  client: ClientBase,
  keys: MasterKeys | null,
  ids?: readonly string[],
): Promise<{ secrets: Map<string, string>; unopened: Unopened[] }> {
  const secrets = new Map<string, string>();
  const unopened: Unopened[] = [];
  for (const credential of await readCredentials(client, ids)) {
    const { id, upstream, master_key } = credential;
    try {
      secrets.set(id, openSecret(keys ?? { current: '', all: new Map() }, credential, credential));
    } catch (error) {
      const why =
        error instanceof UnknownMasterKeyError
          ? `it is encrypted with the master key ${master_key}, which is not in DAYBOOK_MASTER_KEY_FILE`
          : 'its row was modified';
      unopened.push({ id, upstream, why });
    }
  }
  return { secrets, unopened };
}

/**
 * The decrypted secrets of all credentials in the log, which are nowhere but in the memory of a server. They
 * are kept once decrypted, so changing the master key interrupts no call; its file is read again whenever a
 * credential must be decrypted. A credential that can't be is logged once and retried, and never ends the
 * process.
 */
export class CredentialStore {
  readonly #store: Store;
  readonly #directory: UpstreamDirectory;
  readonly #file: string;
  readonly #log: Logger;
  readonly #secrets = new Map<string, string>();
  readonly #listeners: (() => void)[] = [];
  /**
   * The reason that was logged for each credential that could not be decrypted, so that it is logged once.
   */
  #logged = new Map<string, string>();
  #refreshing: Promise<void> | null = null;
  #isStale = false;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param file of the master key. Call {@link start} once `directory` has caught up. */
  constructor({
    store,
    directory,
    file,
    log,
  }: {
    store: Store;
    directory: UpstreamDirectory;
    file: string;
    log: Logger;
  }) {
    this.#store = store;
    this.#directory = directory;
    this.#file = file;
    this.#log = log;
  }

  /** A credential's secret; undefined while it is not decrypted. */
  secret(id: string): string | undefined {
    return this.#secrets.get(id);
  }

  /**
   * An upstream's decrypted credentials. If none of its credentials is decrypted, no call may be sent to it.
   */
  openOf({ credentials }: Pick<Upstream, 'credentials'>): { id: string; secret: string }[] {
    return credentials.flatMap(({ id }) => {
      const secret = this.#secrets.get(id);
      return secret === undefined ? [] : [{ id, secret }];
    });
  }

  /** Calls `listener` when secrets were added or removed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Decrypts all credentials, and follows the directory from then on. Never throws. */
  async start(): Promise<void> {
    this.#directory.onChange(() => {
      if (this.#missing().length > 0 || this.#removed().length > 0) void this.refresh();
    });
    await this.refresh();
  }

  /** Decrypts new credentials and discards removed ones. Never throws. */
  refresh(): Promise<void> {
    this.#isStale = true;
    this.#refreshing ??= this.#catchUp();
    return this.#refreshing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    await this.#refreshing;
  }

  async #catchUp(): Promise<void> {
    while (this.#isStale && !this.#isClosed) {
      this.#isStale = false;
      clearTimeout(this.#retry);
      const hasRemoved = this.#discardRemoved();
      const hasAdded = await this.#open();
      if (hasRemoved || hasAdded) for (const listener of this.#listeners) listener();
    }
    this.#refreshing = null;
    if (this.#missing().length > 0 && !this.#isClosed)
      this.#retry = setTimeout(() => void this.refresh(), CREDENTIAL_RETRY_MS).unref();
  }

  async #open(): Promise<boolean> {
    const wanted = this.#missing();
    if (wanted.length === 0) return false;
    try {
      const keys = readKeys(this.#file);
      const client = await connectRelay(this.#store);
      try {
        const { secrets, unopened } = await openCredentials(
          client,
          keys,
          wanted.map(({ id }) => id),
        );
        for (const [id, secret] of secrets) this.#secrets.set(id, secret);
        const absent = wanted.filter(
          ({ id }) => !secrets.has(id) && !unopened.some((each) => each.id === id),
        );
        this.#logUnopened([
          ...unopened,
          ...absent.map((each) => ({ ...each, why: 'its secret is not in the database' })),
        ]);
        return secrets.size > 0;
      } finally {
        await closeClient(client);
      }
    } catch (error) {
      // The message of a configuration error is for the operator, and contains no secret.
      if (error instanceof ConfigError)
        this.#logUnopened(wanted.map((each) => ({ ...each, why: error.message })));
      else
        this.#log.warn(
          errorFields(error),
          `reading credentials failed; retrying in ${CREDENTIAL_RETRY_MS / 1_000} s`,
        );
      return false;
    }
  }

  #logUnopened(unopened: readonly Unopened[]): void {
    const logged = this.#logged;
    this.#logged = new Map(unopened.map(({ id, why }) => [id, why]));
    for (const { id, upstream, why } of unopened) {
      if (logged.get(id) !== why)
        this.#log.error({ upstream, credential: id }, `credential not usable: ${why}`);
    }
  }

  /** Credentials in the log that are not decrypted. */
  #missing(): { id: string; upstream: string }[] {
    return [...this.#known()].filter(({ id }) => !this.#secrets.has(id));
  }

  *#known(): Iterable<{ id: string; upstream: string }> {
    for (const { name, state, credentials } of this.#directory.upstreams) {
      if (state === 'active') for (const { id } of credentials) yield { id, upstream: name };
    }
  }

  /** Decrypted credentials that were removed from the log. */
  #removed(): string[] {
    const known = new Set([...this.#known()].map(({ id }) => id));
    return [...this.#secrets.keys()].filter((id) => !known.has(id));
  }

  /** @returns whether any secret was discarded. */
  #discardRemoved(): boolean {
    const removed = this.#removed();
    for (const id of removed) this.#secrets.delete(id);
    return removed.length > 0;
  }
}
