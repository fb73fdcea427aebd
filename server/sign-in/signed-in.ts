import type { IncomingMessage } from 'node:http';
import type { Role } from '#db/events/parts.ts';
import type { Account } from '#db/fold/account.ts';
import type { Member } from '#db/fold/member.ts';
import type { ChangeGuard } from '#server/control/change-guard.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** The sender of a request to the management API: a signed-in member, or a management key. */
export type Caller = {
  /** As events record it: `member/<id>` or `management_key/<id>`. */
  actor: string;
  role: Role;
  /** The account that it belongs to; null: a management key of the installation. */
  ownAccount: string | null;
  /** The session's public id; null: a management key. */
  session: string | null;
  /** The conditions of this request on the change that it makes; absent: none. */
  guard?: ChangeGuard;
};

/** A signed-in member, as of this request. */
export type SignedIn = Caller & {
  session: string;
  member: Member;
  account: Account;
};

/**
 * Finds the sender of a request by its session cookie: 401 `unauthenticated`, or 503 while sessions can't be
 * read.
 * @param isUse false: the request does not keep the session from expiring.
 */
export type FindSession = (request: IncomingMessage, isUse?: boolean) => Promise<SignedIn | ApiError>;
