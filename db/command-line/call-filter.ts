import type { Command } from '#db/command-line/command.ts';
import { Id, MODEL_NAME, Pseudonym, UpstreamName } from '#db/events/parts.ts';
import { type CallFilter, STATUS_CLASSES } from '#db/fold/call-filter.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { OUTCOMES } from '#db/projections/outcomes.ts';

/** The options by which commands filter calls, and what calls leave behind. The account has a name there. */

type Field = Exclude<keyof CallFilter, 'account'>;
type Option = { value: string; expected: string; isValid: (text: string) => boolean };

const oneOf = (value: string, values: readonly string[]): Option => ({
  value,
  expected: `one of ${values.join(', ')}`,
  isValid: (text) => values.includes(text),
});
const PSEUDONYM: Option = {
  value: 'pseudonym',
  expected: 'a pseudonym of 16 letters and digits',
  isValid: (text) => Pseudonym.safeParse(text).success,
};
const OPTIONS: Record<Field, Option> = {
  key: { value: 'id', expected: 'the id of a key', isValid: (text) => Id.safeParse(text).success },
  model: { value: 'name', expected: 'the name of a model', isValid: (text) => MODEL_NAME.test(text) },
  route: oneOf('path', RELAYED_ROUTES),
  upstream: {
    value: 'name',
    expected: 'the name of an upstream',
    isValid: (text) => UpstreamName.safeParse(text).success,
  },
  end_user: PSEUDONYM,
  session: PSEUDONYM,
  tag: PSEUDONYM,
  outcome: oneOf('outcome', OUTCOMES),
  status: {
    value: 'status',
    expected: 'an HTTP status such as 429, or a class such as 4xx',
    isValid: (text) => /^[1-5]\d\d$/.test(text) || STATUS_CLASSES.some((each) => each === text),
  },
  error_code: {
    value: 'code',
    expected: 'an error code',
    isValid: (text) => /^[a-z_]{1,64}$/.test(text),
  },
};
const FIELDS = Object.keys(OPTIONS) as Field[];

/** The values of these options, by the names that they have in a command's options. */
export type FilterOptions = Partial<Record<string, unknown>>;

const flagOf = (field: Field): string => `--${field.replaceAll('_', '-')}`;
const optionOf = (field: Field): string =>
  field.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/** Adds an option for each field. @param what as in "only requests with this upstream". */
export function withFilterOptions(
  command: Command,
  what: string,
  fields: readonly Field[] = FIELDS,
): Command {
  for (const field of fields)
    command.option(`${flagOf(field)} <${OPTIONS[field].value}>`, `only ${what} this ${nameOf(field)}`);
  return command;
}

/** The filter of these options. @throws {StoreError} where a value can't be one of the log. */
export function readFilterOptions(options: FilterOptions): Omit<CallFilter, 'account'> {
  const given = FIELDS.flatMap((field) => {
    const value = options[optionOf(field)];
    if (typeof value !== 'string') return [];
    const { expected, isValid } = OPTIONS[field];
    if (!isValid(value)) throw new StoreError(`${flagOf(field)} must be ${expected}`);
    return [[field, field === 'status' && /^\d+$/.test(value) ? Number(value) : value] as const];
  });
  return Object.fromEntries(given);
}

/** The filter in words. */
export const filterText = (filter: CallFilter): string =>
  Object.entries(filter)
    .map(([field, value]) => `${nameOf(field)} ${value}`)
    .join(', ');

const nameOf = (field: string): string => field.replaceAll('_', ' ');
