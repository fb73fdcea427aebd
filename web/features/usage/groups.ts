import type { UsageGroup } from '#server/contract/usage.ts';

/** The display names of groups of usage. Pure. */
export const GROUP_NAMES: Record<UsageGroup, string> = {
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
