import type { Pool } from 'pg';
import { openPool, type Store } from '#db/connect.ts';
import { SIGN_IN_CONNECTIONS_MAX } from '#server/sign-in/bounds.ts';
import type { Config } from '#server/config.ts';
import type { ReadModel } from '#server/read-model.ts';
import { Attempts } from '#server/sign-in/attempts.ts';
import { type Mail, openMail } from '#server/sign-in/mail.ts';
import { Passwords } from '#server/sign-in/passwords.ts';
import { Sessions } from '#server/sign-in/sessions.ts';
import type { Logger } from '#server/telemetry.ts';

/** What signing in works with. */
export type SignInDesk = {
  /** For looks at members and sessions; changes go through the control seat. */
  pool: Pool;
  sessions: Sessions;
  passwords: Passwords;
  attempts: Attempts;
  /** Null: no mail server is set up. */
  mail: Mail | null;
  close(): Promise<void>;
};

export function openSignInDesk(store: Store, config: Config, readModel: ReadModel, pepper: Buffer, log: Logger): SignInDesk {
  const pool = openPool({ ...store.config('relay'), max: SIGN_IN_CONNECTIONS_MAX });
  return {
    pool,
    sessions: new Sessions(pool, readModel, config.trustedProxies),
    passwords: new Passwords(),
    attempts: new Attempts(pool, pepper),
    mail: openMail(config, log),
    close: () => pool.end(),
  };
}
