import { z } from 'zod';
import { Id } from '#server/contract/parts.ts';
import { withoutControls } from '#server/contract/session.ts';

/** Contract for names of ids, and for the search by name and id. For signed-in members. Pure. */

/** Ids of one kind in one request for names: as many as a long page shows. */
export const NAMES_MAX = 200;

const Ids = z
  .string()
  .max(NAMES_MAX * 9)
  .regex(/^[0-9A-Za-z]{8}(,[0-9A-Za-z]{8})*$/, 'must be ids of eight letters and digits, with commas between')
  .transform((text) => text.split(','))
  .default([]);

/** Query of `GET /api/v1/names`: ids with commas between, at most 200 of each kind. */
export const NamesQuery = z.strictObject({ keys: Ids, accounts: Ids, members: Ids });

const NamesById = z.record(z.string(), z.string());
/**
 * `GET /api/v1/names`: the names of these keys and accounts, and the email addresses of these members. An id
 * that is unknown or not visible to the member is missing, and so are all addresses for auditors.
 */
export const Names = z.object({
  object: z.literal('names'),
  keys: NamesById,
  accounts: NamesById,
  members: NamesById,
});
export type Names = z.infer<typeof Names>;

export const SEARCH_KINDS = ['request', 'key', 'account', 'member', 'model', 'upstream'] as const;
export type SearchKind = (typeof SEARCH_KINDS)[number];
/** Results of each kind in one reply. */
export const SEARCH_RESULTS_MAX = 20;
/** A text to search for: longer than any name. */
export const SEARCH_TEXT_MAX = 256;

/** `POST /api/v1/search` → {@link SearchResults}. In the body, so that no text stands in an address. */
export const SearchQuery = z.strictObject({
  /** Part of a name or an id, whatever its case; absent: the newest of each kind. */
  q: withoutControls(z.string().max(SEARCH_TEXT_MAX)).default(''),
  /** Absent: all kinds. */
  kind: z.enum(SEARCH_KINDS).optional(),
  /** Only keys and members of this account. */
  account: Id.optional(),
  /** Results of each kind. */
  limit: z.int().min(1).max(SEARCH_RESULTS_MAX).default(10),
});
export type SearchQuery = z.output<typeof SearchQuery>;

export const SearchResult = z.object({
  kind: z.enum(SEARCH_KINDS),
  id: z.string(),
  /** Of a member its email address, or its id for auditors; of a request its model, if it is known. */
  name: z.string(),
  /** The name of the account that it belongs to, where there can be several. */
  account_name: z.string().nullable(),
  /** Whether it can still be used: a key that isn't revoked or expired, an account that isn't suspended. */
  active: z.boolean(),
});
export type SearchResult = z.infer<typeof SearchResult>;

/** By kind, and within a kind the best match first. */
export const SearchResults = z.object({ object: z.literal('list'), data: z.array(SearchResult) });
export type SearchResults = z.infer<typeof SearchResults>;
