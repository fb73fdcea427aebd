import type { ClientBase } from 'pg';
import { closeClient, type Store } from '#db/postgres/connect.ts';
import { readCredentials } from '#db/secrets/credentials.ts';
import { type MasterKeys, openSecret, UnknownMasterKeyError } from '#db/secrets/envelope.ts';
import type { Upstream } from '#db/fold/upstream.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { ConfigError } from '#server/process/config.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';
import type { UpstreamDirectory } from '#server/upstreams/directory.ts';
import { CREDENTIAL_RETRY_MS } from '#server/upstreams/bounds.ts';

/** A credential that does not open, and why, in words that show nothing of it. */
export type Unopened = { id: string; upstream: string; why: string };

/**
 * Opens credentials. One that does not open is left out and told of; it keeps none of the others back.
 * @param keys null where there is no master key here.
 * @param ids those that are wanted; absent: all.
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
          ? `it is sealed under the master key ${master_key}, which DAYBOOK_MASTER_KEY_FILE does not hold`
          : 'its row has been changed';
      unopened.push({ id, upstream, why });
    }
  }
  return { secrets, unopened };
}

/**
 * The secrets of all credentials that the log knows, in the memory of a server, which is the only place
 * where they are in clear. Once opened they stay, so a change of the master key disturbs nobody; the file
 * is read again whenever there is something to open. What does not open is told once by a line of the
 * log and tried again, and never ends the process.
 */
export class CredentialStore {
  readonly #store: Store;
  readonly #directory: UpstreamDirectory;
  readonly #file: string;
  readonly #log: Logger;
  readonly #secrets = new Map<string, string>();
  readonly #listeners: (() => void)[] = [];
  /** What was told of each that does not open, so that it is told once. */
  #told = new Map<string, string>();
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

  /** A credential's secret; undefined where it does not open, or not yet. */
  secret(id: string): string | undefined {
    return this.#secrets.get(id);
  }

  /**
   * Those of an upstream's credentials that are open. None although it has some: nothing may be sent there
   * without.
   */
  openOf({ credentials }: Pick<Upstream, 'credentials'>): { id: string; secret: string }[] {
    return credentials.flatMap(({ id }) => {
      const secret = this.#secrets.get(id);
      return secret === undefined ? [] : [{ id, secret }];
    });
  }

  /** Has `listener` told when secrets have come or gone. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Begins to follow, with what there is. Never throws. */
  async start(): Promise<void> {
    this.#directory.onChange(() => {
      if (this.#missing().length > 0 || this.#gone().length > 0) void this.refresh();
    });
    await this.refresh();
  }

  /** Opens what is new and forgets what is gone. Never throws. */
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
      const hasLost = this.#forget();
      const hasGained = await this.#open();
      if (hasLost || hasGained) for (const listener of this.#listeners) listener();
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
        this.#tell([
          ...unopened,
          ...absent.map((each) => ({ ...each, why: 'its secret is not in the database' })),
        ]);
        return secrets.size > 0;
      } finally {
        await closeClient(client);
      }
    } catch (error) {
      // The message of a configuration error is meant for the operator, and shows no secret.
      if (error instanceof ConfigError) this.#tell(wanted.map((each) => ({ ...each, why: error.message })));
      else
        this.#log.warn(
          errorFields(error),
          `the credentials of upstreams could not be read; this is tried again every ${CREDENTIAL_RETRY_MS / 1_000} seconds`,
        );
      return false;
    }
  }

  #tell(unopened: readonly Unopened[]): void {
    const told = this.#told;
    this.#told = new Map(unopened.map(({ id, why }) => [id, why]));
    for (const { id, upstream, why } of unopened) {
      if (told.get(id) !== why)
        this.#log.error({ upstream, credential: id }, `a credential does not open and is left out: ${why}`);
    }
  }

  /** Those that the log knows and that are not open. */
  #missing(): { id: string; upstream: string }[] {
    return [...this.#known()].filter(({ id }) => !this.#secrets.has(id));
  }

  *#known(): Iterable<{ id: string; upstream: string }> {
    for (const { name, state, credentials } of this.#directory.upstreams) {
      if (state === 'active') for (const { id } of credentials) yield { id, upstream: name };
    }
  }

  /** Those that are open and were removed. */
  #gone(): string[] {
    const known = new Set([...this.#known()].map(({ id }) => id));
    return [...this.#secrets.keys()].filter((id) => !known.has(id));
  }

  /** @returns whether there was anything to forget. */
  #forget(): boolean {
    const gone = this.#gone();
    for (const id of gone) this.#secrets.delete(id);
    return gone.length > 0;
  }
}
