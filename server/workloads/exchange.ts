import type { Pool } from 'pg';
import { publicId } from '#db/ids.ts';
import { countExchanges, deleteExchange, insertExchange } from '#db/workloads/exchanges.ts';
import { checkKey } from '#server/access/authenticate.ts';
import { EXCHANGES_LIVE_MAX } from '#server/decide/bounds.ts';
import { StoreUnavailable } from '#server/instance/appender.ts';
import type { Relay } from '#server/relay/relay.ts';
import { createExchangedSecret } from '#server/secrets/exchanged-secret.ts';
import { CLOCK_TOLERANCE_S } from '#server/sign-in/oidc/issuer.ts';
import { IssuerKeys } from '#server/workloads/issuer-keys.ts';
import {
  isRefusal,
  type Refusal,
  REPLAYED,
  TOO_MANY,
  UNAVAILABLE,
  verifyToken,
} from '#server/workloads/verify-token.ts';

/** A short-lived key. Its secret is stored nowhere. */
export type IssuedKey = { secret: string; expiresInS: number };

/** Exchanges tokens of workloads for short-lived keys. */
export class TokenExchange {
  readonly #relay: Relay;
  readonly #pool: Pool;
  readonly #keys = new IssuerKeys();

  constructor(relay: Relay, pool: Pool) {
    this.#relay = relay;
    this.#pool = pool;
  }

  /**
   * Issues a short-lived key for a token. The key leaves once its event is durable.
   * @param name of the workload; null: the first that admits the token.
   * @throws database errors.
   */
  async exchange(token: string, name: string | null, request: string): Promise<IssuedKey | Refusal> {
    const { readModel, pepper, instance } = this.#relay;
    if (!readModel.isCurrent()) return UNAVAILABLE;
    const nowMs = readModel.nowMs();
    const workloads = readModel.workloads.active;
    const verified = await verifyToken(token, name, { workloads, keys: this.#keys, nowMs });
    if (isRefusal(verified)) return verified;
    const { workload, issuer, claims } = verified;
    const key = readModel.key(workload.key);
    if (!key || checkKey(key, nowMs) !== null || readModel.account(key.account)?.state !== 'active')
      return {
        error: 'invalid_target',
        description: 'The key or account of the workload is not active.',
        reason: 'inactive',
      };
    if ((await countExchanges(this.#pool, key.id)) >= EXCHANGES_LIVE_MAX) return TOO_MANY;

    const exchange = publicId();
    const lifetimeS = workload.terms.key_minutes * 60;
    const expiresAt = new Date((Math.floor(nowMs / 1_000) + lifetimeS) * 1_000);
    const tokenEndsMs = verified.expiresMs + CLOCK_TOLERANCE_S * 1_000;
    const keptUntil = new Date(Math.max(expiresAt.getTime(), tokenEndsMs));
    const row = { id: exchange, key: key.id, token: verified.token, expiresAt, keptUntil };
    if (!(await insertExchange(this.#pool, row))) return REPLAYED;
    try {
      await instance.appender.recordExchange({
        type: 'workload.exchanged',
        request,
        workload: workload.name,
        account: key.account,
        key: key.id,
        exchange,
        expires_at: expiresAt.toISOString(),
        issuer,
        claims,
      });
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      // Where that fails, too, the token can't be exchanged again, and the machine asks for another one.
      await deleteExchange(this.#pool, exchange).catch(() => {});
      return UNAVAILABLE;
    }
    const secret = createExchangedSecret(pepper, { key: key.id, exchange, expiresMs: expiresAt.getTime() });
    return { secret, expiresInS: lifetimeS };
  }
}
