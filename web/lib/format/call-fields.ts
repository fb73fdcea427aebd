import type { CallFilter } from '#db/fold/call-filter.ts';

/** The display names of the fields that calls are filtered and grouped by. Pure. */
export const FIELD_NAMES: Record<keyof CallFilter, string> = {
  account: 'Account',
  key: 'Key',
  model: 'Model',
  route: 'Route',
  upstream: 'Upstream',
  end_user: 'End user',
  session: 'Session',
  tag: 'Tag',
  outcome: 'Outcome',
  status: 'Status',
  error_code: 'Error code',
};
