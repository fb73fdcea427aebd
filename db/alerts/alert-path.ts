import type { ReadAlert } from '#db/alerts/alert-line.ts';

/** The path of the dashboard's page that shows the calls, or the resource, that an alert is about. Pure. */
export function alertPath({
  kind,
  account,
  details,
}: Pick<ReadAlert, 'kind' | 'details'> & { account: string | null }): string {
  const { window_starts_at: windowStart, window_ends_at: windowEnd } = details;
  const { hour_starts_at: hourStart, hour_ends_at: hourEnd, upstream, model } = details;
  switch (kind) {
    case 'quota':
    case 'overdraft':
    case 'budget_forecast':
      return calls({ account, ...subjectOf(details), from: windowStart, to: windowEnd });
    case 'usage_anomaly':
      return calls({ account, ...subjectOf(details), from: hourStart, to: hourEnd });
    case 'key_expiring':
      return pathOf('/keys', { account });
    case 'upstream_failing':
    case 'implausible_usage':
    case 'background_lost':
    case 'batch_lost':
      return calls({ upstream, model });
    case 'statement_email_failed':
      return pathOf('/statements', { account });
    case 'projector_behind':
    case 'job_failing':
      return '/admin/status';
    case 'sink_failing':
      return '/admin/sinks';
    case 'test':
      return '/admin/alerts';
  }
}

const subjectOf = ({ key, model, end_user, session, tag }: ReadAlert['details']) => ({
  key,
  model,
  end_user,
  session,
  tag,
});

const calls = (filter: Record<string, unknown>): string => pathOf('/requests', filter);

function pathOf(path: string, search: Record<string, unknown>): string {
  const query = new URLSearchParams(
    Object.entries(search).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  ).toString();
  return query === '' ? path : `${path}?${query}`;
}
