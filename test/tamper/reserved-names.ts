import { type ControlEvent, EVENT_CODES } from '#db/events/events.ts';

/** Names that control events reserve: each has a row of its own among the heads of streams. */

/** The name that an event reserves; null: none. */
export function reservedName(event: ControlEvent): string | null {
  switch (event.type) {
    case 'account.registered':
      return `account-name/${event.name}`;
    case 'account.topped_up':
      return `top-up/${event.account}/${event.reference}`;
    default:
      return null;
  }
}

const BODY = '(line::daybook.event_fields).body::json';
/** The same in SQL, of a row of `daybook.control_event`. */
export const RESERVED_NAME = `case type
  when ${EVENT_CODES['account.registered']} then 'account-name/' || (${BODY} ->> 'name')
  when ${EVENT_CODES['account.topped_up']} then 'top-up/' || account || '/' || (${BODY} ->> 'reference') end`;
