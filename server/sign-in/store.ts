import type { Pool } from 'pg';
import { openPool, type Store } from '#db/postgres/connect.ts';
import { deleteExpiredExchanges } from '#db/workloads/exchanges.ts';
import { deleteExpiredLinks } from '#db/members/links.ts';
import { deleteExpiredSessions } from '#db/members/sessions.ts';
import {
  ENDED_CHECK_MS,
  SIGN_IN_CONNECTIONS_MAX,
  SIGN_IN_WAITING_MAX,
  ANONYMOUS_CONNECTIONS_MAX,
} from '#server/sign-in/bounds.ts';
import type { Config } from '#server/process/config.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { LoginThrottle } from '#server/sign-in/throttle.ts';
import { type Mail, openMail } from '#server/sign-in/mail.ts';
import { PasswordThrottle } from '#server/sign-in/password-throttle.ts';
import { Passwords } from '#server/sign-in/passwords.ts';
import { Sessions } from '#server/sign-in/sessions.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/** Dependencies of signing in. */
export type SignInStore = {
  /** Reads of members and sessions; changes go through the control writer. */
  pool: Pool;
  /** The same for requests without a session. */
  anonymousPool: Pool;
  sessions: Sessions;
  passwords: Passwords;
  throttle: LoginThrottle;
  passwordThrottle: PasswordThrottle;
  /** Null: no mail server is configured. */
  mail: Mail | null;
  close(): Promise<void>;
};

export function openSignInStore(
  store: Store,
  config: Config,
  readModel: ReadModel,
  pepper: Buffer,
  log: Logger,
): SignInStore {
  const pool = openPool({ ...store.config('relay'), max: SIGN_IN_CONNECTIONS_MAX });
  const strangers = openPool({ ...store.config('relay'), max: ANONYMOUS_CONNECTIONS_MAX });
  const clearing = setInterval(() => {
    Promise.all([deleteExpiredSessions(pool), deleteExpiredLinks(pool), deleteExpiredExchanges(pool)]).catch(
      (error: unknown) =>
        log.warn(errorFields(error), 'deleting expired sessions, links and exchanges failed; retrying later'),
    );
  }, ENDED_CHECK_MS);
  clearing.unref();
  return {
    pool,
    anonymousPool: strangers,
    sessions: new Sessions(pool, readModel, config, log),
    passwords: new Passwords(),
    throttle: new LoginThrottle(strangers, pepper),
    passwordThrottle: new PasswordThrottle(strangers, pepper),
    mail: openMail(config, log),
    async close() {
      clearInterval(clearing);
      await Promise.all([pool.end(), strangers.end()]);
    },
  };
}

/**
 * Runs a short query for a request without a session.
 * @returns 503 if too many are waiting.
 */
export async function queryAnonymously<T>(
  { anonymousPool: strangers }: SignInStore,
  ask: (pool: Pool) => Promise<T>,
): Promise<T | ApiError> {
  return strangers.waitingCount >= SIGN_IN_WAITING_MAX ? new ApiError('relay_overloaded') : ask(strangers);
}
