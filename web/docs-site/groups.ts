/** The order of the pages. A page that is in no group is listed at the end. */
export const GROUPS: readonly (readonly [title: string, pages: readonly string[]])[] = [
  ['Start', ['quick-start', 'clients', 'dashboard', 'errors']],
  [
    'Calls',
    ['api', 'protocols', 'websocket', 'idempotency', 'stored-responses', 'batches', 'audio', 'count-tokens'],
  ],
  ['Upstreams and limits', ['upstreams', 'limits', 'prices', 'attribution']],
  [
    'Usage and billing',
    ['usage', 'spend-events', 'statements', 'reconciliation', 'backtest', 'forecast', 'alerts'],
  ],
  [
    'Operations',
    [
      'operations',
      'configuration',
      'packages',
      'deploy',
      'metrics',
      'traces',
      'postgresql',
      'backup',
      'retention',
      'upgrades',
      'database-roles',
    ],
  ],
  ['Audit', ['audit', 'audit-format', 'witness']],
  ['Programs', ['management-api', 'management-routes', 'cli']],
  ['Project', ['architecture', 'decisions', 'security', 'contributing', 'benchmarks', 'changelog']],
];
