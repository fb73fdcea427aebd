import { EVENT_CODES, REQUEST_TYPES } from '#db/events/events.ts';

/** Which lines of a batch are of control events. Pure. */

const REQUEST = `(?:${REQUEST_TYPES.map((type) => EVENT_CODES[type]).join('|')})`;
const CONTROL_LINE = new RegExp(`^\\((?!${REQUEST},)`);
const SOME_CONTROL_LINE = new RegExp(CONTROL_LINE, 'm');

/** Whether a line is of a control event: its type is not of a request. */
export const isControlLine = (line: string): boolean => CONTROL_LINE.test(line);

/** Whether a batch has a control event: nearly none has one. @param events its lines. */
export const hasControlLine = (events: string): boolean => SOME_CONTROL_LINE.test(events);
