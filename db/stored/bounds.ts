/** The longest id of a stored response, in characters: gateways encode their own routes into ids. */
export const RESPONSE_ID_CHARACTERS_MAX = 512;

/** How long the place of a stored response is known: as long as OpenAI keeps one. */
export const STORED_RESPONSE_DAYS = 30;

/** Rows that one statement deletes. */
export const DELETED_ROWS_MAX = 5_000;
