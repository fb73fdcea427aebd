import { type CallFilter, FILTER_FIELDS } from '#db/fold/call-filter.ts';
import { type FilterSearch, readFilterSearch } from '../../lib/search/filter.ts';
import { OUTCOME_WORDS } from '../../lib/format/outcomes.ts';

/** Parses a typed filter such as `status:429 key:ci model:gpt-4o`. Pure. */

export type FilterName = keyof CallFilter;
export const FILTER_NAMES: readonly FilterName[] = FILTER_FIELDS;
/** Shorter names for typing. */
const ALIASES: Readonly<Record<string, FilterName>> = { user: 'end_user', error: 'error_code' };

type Named = { id: string; name: string };
/** Filters whose values are typed in readable form, and are looked up. */
export type AttributionFilter = 'end_user' | 'session' | 'tag';
const isAttribution = (field: string): field is AttributionFilter =>
  field === 'end_user' || field === 'session' || field === 'tag';

type FilterRead = {
  filter: Pick<FilterSearch, FilterName>;
  /** Readable values or pseudonyms, as typed. */ attribution: Partial<Record<AttributionFilter, string>>;
  /** The first error, or null. */ problem: string | null;
};

const NOTHING = { filter: {}, attribution: {} };

/**
 * Parses a line. Keys and accounts are given by name or id. A word without a field is a status, an outcome or
 * a model.
 */
export function readFilterText(text: string, keys: readonly Named[], accounts: readonly Named[]): FilterRead {
  const filter: Record<string, string> = {};
  const attribution: FilterRead['attribution'] = {};
  for (const [, name, quoted, plain] of text.matchAll(/(?:([a-z_]+):)?(?:"([^"]*)"|(\S+))/gi)) {
    const value = quoted ?? plain ?? '';
    const typed = name === undefined ? fieldOf(value) : name.toLowerCase();
    const field = Object.hasOwn(ALIASES, typed) ? (ALIASES[typed] as FilterName) : typed;
    if (!FILTER_NAMES.includes(field as FilterName))
      return { ...NOTHING, problem: `Unknown filter “${field}”. Use ${FILTER_NAMES.join(', ')}.` };
    if (isAttribution(field)) {
      attribution[field] = value;
      continue;
    }
    const read =
      field === 'key'
        ? idOf(value, keys)
        : field === 'account'
          ? idOf(value, accounts)
          : field === 'outcome'
            ? value.toLowerCase().replaceAll(/[ -]/g, '_')
            : value;
    if (read === null) return { ...NOTHING, problem: `No ${field} named “${value}”.` };
    filter[field] = read;
  }
  const usable = readFilterSearch(filter);
  const wrong = Object.keys(filter).find((name) => !(name in usable));
  return wrong === undefined
    ? { filter: usable, attribution, problem: null }
    : { ...NOTHING, problem: `Invalid ${wrong} “${filter[wrong]}”.` };
}

function fieldOf(value: string): FilterName {
  if (/^[1-5](?:\d\d|xx)$/.test(value)) return 'status';
  if (value.startsWith('/v1/')) return 'route';
  return Object.hasOwn(OUTCOME_WORDS, value.toLowerCase()) ? 'outcome' : 'model';
}

function idOf(value: string, all: readonly Named[]): string | null {
  const wanted = value.toLowerCase();
  const found = all.find(({ id }) => id === value) ?? all.find(({ name }) => name.toLowerCase() === wanted);
  // An id that is not in the list may still occur in old requests.
  return found?.id ?? (/^[0-9A-Za-z]{8}$/.test(value) ? value : null);
}
