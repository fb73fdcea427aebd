/** Bounds of exchanging tokens for short-lived keys. */

/** A token of GitHub has some 2 kB, and one of Kubernetes 1. */
export const TOKEN_CHARACTERS_MAX = 16_384;
/** The form of a request, with its token. */
export const FORM_BYTES_MAX = 24_576;
/** A token that lasts longer is refused: until it expires a row prevents that it is exchanged again. */
export const TOKEN_LIFETIME_MAX_MS = 24 * 60 * 60 * 1000;
/** How long the metadata of an issuer is used, and its keys, unless one is missing. */
export const ISSUER_METADATA_MAX_MS = 60 * 60 * 1000;
export const ISSUER_KEYS_MAX_MS = 10 * 60 * 1000;
/** An issuer's keys are read again for an unknown one after this time, and after a failure after that. */
export const KEYS_REREAD_MS = 30_000;
export const ISSUER_RETRY_MS = 10_000;
/** Live short-lived keys that a list shows. */
export const EXCHANGES_SHOWN_MAX = 200;
