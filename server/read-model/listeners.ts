import type { EventOf } from '#db/events/events.ts';
import type { MemberEvent } from '#db/events/subjects.ts';

/** Functions that the read model calls with what changed. */

/** Called once per page of the log, with the accounts whose calls it may affect. */
export type ChangeListener = (accounts: ReadonlySet<string>) => void;

/** Called with each event that may end a session: the session was closed, or its member changed. */
export type SessionListener = (event: MemberEvent | EventOf<'session.closed'>) => void;

/** Called with the account (`account/<id>`) or the key (`key/<id>`) of each adjusted quota. */
export type AdjustmentListener = (subject: string) => void;
