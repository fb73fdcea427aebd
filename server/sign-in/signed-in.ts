import type { IncomingMessage } from 'node:http';
import type { Account } from '#db/fold/account.ts';
import type { Member } from '#db/fold/member.ts';
import type { ApiError } from '#server/errors/api-error.ts';

/** A signed-in member, as of this request. */
export type SignedIn = {
  /** The session's public id. */
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
