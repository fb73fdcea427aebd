import { Id, MODEL_NAME, Pseudonym, UpstreamName } from '#db/events/parts.ts';
import type { CallFilter } from '#db/fold/call-filter.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { StoreError } from '#db/postgres/connect.ts';

/** The options that narrow a statement. Pure. */
export type FilterOptions = {
  key?: string;
  model?: string;
  route?: string;
  upstream?: string;
  endUser?: string;
  session?: string;
  tag?: string;
};

/** The filter of these options. @throws {StoreError} where a value can't be one of the log. */
export function readStatementFilter(options: FilterOptions): CallFilter {
  const { key, model, upstream, endUser, session, tag } = options;
  const route = RELAYED_ROUTES.find((each) => each === options.route);
  const filter: CallFilter = { key, model, route, upstream, end_user: endUser, session, tag };
  check('--key', key, 'the id of a key', (text) => Id.safeParse(text).success);
  check('--model', model, 'the name of a model', (text) => MODEL_NAME.test(text));
  check('--route', options.route, `one of ${RELAYED_ROUTES.join(', ')}`, () => route !== undefined);
  check('--upstream', upstream, 'the name of an upstream', (text) => UpstreamName.safeParse(text).success);
  for (const [option, value] of [
    ['--end-user', endUser],
    ['--session', session],
    ['--tag', tag],
  ] as const)
    check(option, value, 'a pseudonym of 16 letters and digits', (text) => Pseudonym.safeParse(text).success);
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

function check(
  option: string,
  value: string | undefined,
  expected: string,
  isValid: (text: string) => boolean,
): void {
  if (value !== undefined && !isValid(value)) throw new StoreError(`${option} must be ${expected}`);
}
