/** The longest id of a stored object, in characters: gateways encode their own routes into ids. */
export const STORED_ID_CHARACTERS_MAX = 512;

/** How long the place of a stored object is known: as long as OpenAI keeps one. */
export const STORED_DAYS = 30;

/** Bytes of a file's or batch's description that lists have: a batch has up to 16 metadata of 576. */
export const STORED_CONTENT_BYTES_MAX = 16_384;

/** Rows that one statement deletes. */
export const DELETED_ROWS_MAX = 5_000;
