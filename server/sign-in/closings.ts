import type { ControlAppend } from '#db/log/append.ts';

/** What is appended for sessions that end. */
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
