/** Fixed bounds of bills, each with its reason. */

const MIB = 1024 * 1024;

/** V8's longest string is just above 512 MiB. A generation of OpenRouter's export has about 300 bytes. */
export const BILL_FILE_BYTES_MAX = 500 * MIB;

/** A line takes about 400 bytes of memory. A day of a large organization has some thousand groups. */
export const BILL_LINES_MAX = 2_000_000;

/** A file with more of them is of another format, or of a service that isn't a model. */
export const UNSUPPORTED_LINES_MAX = 10_000;

/** Of one record of a CSV file, which may contain line ends. */
export const CSV_RECORD_CHARACTERS_MAX = 100_000;

/** Digits after the point of a cost that are kept: a binary fraction of cents prints about twenty. */
export const COST_DIGITS_MAX = 30;

/** How much of an unreadable value an error quotes. */
export const QUOTED_CHARACTERS_MAX = 40;
