import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ClientBase, Pool } from 'pg';
import type { EventOf } from '#db/events/events.ts';
import { publicId, randomBase62 } from '#db/ids.ts';
import type { ControlAppend } from '#db/log/append.ts';
import {
  deleteSession,
  findOpenSession,
  insertSession,
  pruneSessions,
  SESSION_MAX_MS,
  touchSession,
} from '#db/members/sessions.ts';
import { SIGN_IN_WAITING_MAX } from '#server/sign-in/bounds.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { browserLabel } from '#server/sign-in/browser.ts';
import { digestOf, readCookie, setCookie, SECRET_CHARACTERS } from '#server/sign-in/cookie.ts';
import { networkOf, type Reach } from '#server/sign-in/origin.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/** Finds and opens sessions of members. */
export class Sessions {
  readonly #pool: Pool;
  readonly #readModel: ReadModel;
  readonly #reach: Reach;
  readonly #log: Logger;

  constructor(pool: Pool, readModel: ReadModel, reach: Reach, log: Logger) {
    this.#pool = pool;
    this.#readModel = readModel;
    this.#reach = reach;
    this.#log = log;
  }

  /**
   * Finds the member who sent a request. The session is looked up in the database each time, so that one that
   * has ended has ended on every server; the member comes from the read model.
   * @param isUse false: doesn't extend the session.
   */
  async find(request: IncomingMessage, isUse = true): Promise<SignedIn | ApiError> {
    const token = readCookie(request, this.#reach);
    if (token === null) return new ApiError('unauthenticated');
    if (!this.#readModel.isCurrent()) return new ApiError('store_unavailable');
    if (this.#pool.waitingCount >= SIGN_IN_WAITING_MAX) return new ApiError('relay_overloaded');
    try {
      const session = await findOpenSession(this.#pool, digestOf(token));
      if (!session) return new ApiError('unauthenticated');
      if (isUse && session.isSeenLate) await touchSession(this.#pool, session.id);
      const who = await this.whoIs(session.member);
      return who instanceof ApiError ? who : { session: session.id, ...who };
    } catch (error) {
      if (!isStoreFault(error)) throw error;
      this.#log.warn(
        errorFields(error),
        'who is signed in could not be looked up: the store is away, too slow or too busy',
      );
      return new ApiError('store_unavailable');
    }
  }

  /** A member whose row exists. This process may not have read their event yet. */
  async whoIs(id: string): Promise<Omit<SignedIn, 'session'> | ApiError> {
    await this.#readModel.until(() => this.#readModel.member(id) !== undefined);
    if (this.#readModel.unapplied.of('member', id)) return new ApiError('relay_outdated');
    const member = this.#readModel.member(id);
    if (member?.state === 'removed') return new ApiError('unauthenticated');
    const account = member && this.#readModel.account(member.account);
    if (!member || !account) return new ApiError('store_unavailable');
    return { actor: `member/${id}`, role: member.role, ownAccount: account.id, member, account };
  }

  /**
   * Opens a session within a transaction: always a new one, which replaces this browser's previous session.
   * @param maxMs when the session ends in any case.
   * @returns the events to append, and a function that sets the cookie, to call after the commit.
   */
  async open(
    client: ClientBase,
    request: IncomingMessage,
    member: { id: string; account: string },
    maxMs: number = SESSION_MAX_MS,
  ): Promise<{ id: string; appends: ControlAppend[]; setCookie: (response: ServerResponse) => void }> {
    const token = randomBase62(SECRET_CHARACTERS);
    const id = publicId();
    const actor = `member/${member.id}`;
    const before = readCookie(request, this.#reach);
    const replaced = before === null ? null : await findOpenSession(client, digestOf(before));
    // Another member's session isn't ended.
    const ended =
      replaced?.member === member.id && (await deleteSession(client, member.id, replaced.id))
        ? [replaced.id]
        : [];
    ended.push(...(await pruneSessions(client, member.id)));
    await insertSession(client, {
      id,
      member: member.id,
      digest: digestOf(token),
      browser: browserLabel(request.headers['user-agent']),
      network: networkOf(request, this.#reach.trustedProxies),
      maxMs,
    });
    const opened: EventOf<'session.opened'> = {
      type: 'session.opened',
      session: id,
      member: member.id,
      account: member.account,
      actor,
    };
    return {
      id,
      appends: [...sessionClosedAppends(ended, member, actor), { event: opened, version: 1 }],
      setCookie: (response) => setCookie(request, response, this.#reach, token),
    };
  }
}

/** The events that close sessions. */
export function sessionClosedAppends(
  sessions: readonly string[],
  member: { id: string; account: string },
  actor: string,
): ControlAppend[] {
  return sessions.map((session) => ({
    event: { type: 'session.closed', session, member: member.id, account: member.account, actor },
    version: 2,
  }));
}
