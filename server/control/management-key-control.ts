import type { ManagementScope } from '#db/events/management-scopes.ts';
import { publicId } from '#db/ids.ts';
import type { AccountRef } from '#server/control/control-log.ts';
import type { Change } from '#server/control/change.ts';
import type { Control, KeyWithSecret } from '#server/control/control.ts';
import {
  createManagementKey,
  requireManagementKey,
  revokeManagementKey,
} from '#server/decide/management-key.ts';
import { createSecret, digestSecret, MANAGEMENT_SECRET_PREFIX } from '#server/secrets/key-secret.ts';

/** Creates and revokes management keys. */
export class ManagementKeyControl {
  readonly #control: Control;

  constructor(control: Control) {
    this.#control = control;
  }

  /**
   * Creates a management key. Only the reply contains the secret.
   * @throws {DecisionError} when there is no such account, or there are too many keys.
   */
  async create(
    pepper: Buffer,
    command: {
      name: string;
      scopes: readonly ManagementScope[];
      /** The one account that it manages; null: the whole installation. */
      account: AccountRef | null;
      expiresAt: Date | null;
    },
  ): Promise<KeyWithSecret> {
    const { account: ref, ...rest } = command;
    const id = publicId();
    const secret = createSecret(id, MANAGEMENT_SECRET_PREFIX);
    const known = { digest: digestSecret(pepper, secret), last4: secret.slice(-4) };
    const change = await this.#control.decide(async () => {
      const account = ref === null ? null : (await this.#control.loadAccount(ref)).id;
      const model = await this.#control.load();
      const existing = [...model.managementKeys.all].filter((key) => key.account === account);
      const { actor } = this.#control;
      const event = createManagementKey(
        { ...rest, id, secret: known, account, existing, actor },
        new Date(model.nowMs()),
      );
      return { events: [event], version: 1 };
    });
    return { id, secret, ...change };
  }

  /** Also if a newer version has changed the key: it takes permissions away. */
  revoke(id: string): Promise<Change> {
    return this.#control.decide(async () => {
      const key = requireManagementKey(await this.#control.loadManagementKey(id), id);
      const event = revokeManagementKey(key, this.#control.actor);
      return { events: event === null ? [] : [event], version: key.version + 1 };
    });
  }
}
