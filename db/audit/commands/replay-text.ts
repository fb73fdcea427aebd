import type { Progress } from '#db/audit/commands/progress.ts';
import type { StateSnapshot } from '#db/audit/replay/snapshot.ts';
import { showTable } from '#db/command-line/table.ts';
import { formatDollars } from '#db/money.ts';
import type { ModelTerms } from '#db/events/upstream-events.ts';
import { ROWS_SHOWN_MAX } from '#db/audit/bounds.ts';

/** A replayed state as text for people. Pure. */

export type ReplayReport = StateSnapshot & { read: { first_position: number } & Progress['figures'] };

/** The state as tables, each cut off after {@link ROWS_SHOWN_MAX} rows. */
export function showSnapshot(shown: ReplayReport): string {
  const { accounts, keys, plans, upstreams, models, usage, open_requests, windows, faults, read, total } =
    shown;
  const names = new Map(accounts.map(({ id, name }) => [id, name]));
  const touched = windows.filter(({ settled, held }) => settled > 0 || held > 0);
  return [
    `State after position ${shown.position} (${shown.position_at}); keys and windows at ${shown.moment}.`,
    section(
      'Accounts',
      accounts.length,
      ['ID', 'STATE', 'PLAN', 'KEYS', 'OPEN', 'REQUESTS', 'REJECTED', 'TOKENS', 'DOLLARS', 'NAME'],
      accounts,
      (each) => [
        each.id,
        each.state,
        each.plan ?? '-',
        `${each.active_keys}/${each.keys}`,
        each.open_requests,
        each.requests,
        each.refused,
        each.input_tokens + each.output_tokens,
        formatDollars(each.cost_nanousd),
        each.name,
      ],
    ),
    section('Keys', keys.length, ['ID', 'STATE', 'LAST 4', 'EXPIRES', 'ACCOUNT', 'NAME'], keys, (each) => [
      each.id,
      each.state,
      each.last4,
      each.expires_at ?? '-',
      names.get(each.account) ?? each.account,
      each.name,
    ]),
    section('Plans', plans.length, ['NAME', 'STATE', 'ACCOUNTS', 'TERMS'], plans, (each) => [
      each.name,
      each.state,
      each.accounts,
      Object.keys(each.terms).join(', ') || '-',
    ]),
    section(
      'Upstreams',
      upstreams.length,
      ['NAME', 'STATE', 'PROVIDER', 'ADDRESS', 'MODELS', 'CREDENTIALS'],
      upstreams,
      ({ name, state, terms, credentials }) => [
        name,
        state === 'active' && terms.paused ? 'paused' : state,
        terms.package ?? terms.dialect ?? terms.provider,
        terms.base_url ?? '-',
        terms.models.join(', ') || '-',
        credentials
          .map(({ id, label, last4, purpose }) => {
            const known = [id, last4 && `…${last4}`, purpose === 'billing' && 'billing'].filter(Boolean);
            return `${label} (${known.join(', ')})`;
          })
          .join(', ') || '-',
      ],
    ),
    section('Models', models.length, ['NAME', 'STATE', 'TARGETS'], models, (each) => [
      each.name,
      each.state,
      showTargets(each.terms),
    ]),
    section(
      'Usage',
      usage.length,
      [
        'ACCOUNT',
        'KEY',
        'MODEL',
        'REQUESTS',
        'REJECTED',
        'INPUT',
        'CACHED',
        'OUTPUT',
        'REASONING',
        'ABANDONED',
        'UNPRICED',
        'DOLLARS',
      ],
      usage,
      (each) => [
        names.get(each.account) ?? each.account,
        each.key,
        each.model === '' ? '-' : each.model,
        each.requests,
        each.refused,
        each.input_tokens,
        each.cache_read_tokens,
        each.output_tokens,
        each.reasoning_tokens,
        each.abandoned_tokens,
        each.unpriced,
        formatDollars(each.cost_nanousd),
      ],
    ),
    section(
      'Current quota windows',
      touched.length,
      ['SUBJECT', 'QUOTA', 'FROM', 'LIMIT', 'SETTLED', 'RESERVED', 'FREE', ''],
      touched,
      (each) => [
        each.subject,
        `${each.meter} per ${each.window}`,
        each.starts_at.slice(0, 16),
        each.limit,
        each.settled,
        each.held,
        each.free,
        each.in_force ? '' : 'no longer in force',
      ],
    ),
    ...(windows.length > touched.length ? [`${windows.length - touched.length} more are unused.`] : []),
    section(
      'Open requests',
      open_requests.length,
      ['REQUEST', 'SINCE', 'ACCOUNT', 'KEY', 'MODEL', 'RESERVED TOKENS', 'RESERVED DOLLARS'],
      open_requests,
      (each) => [
        each.request,
        each.accepted_at,
        names.get(each.account) ?? each.account,
        each.key,
        each.model,
        each.hold_tokens,
        each.hold_cost_nanousd === null ? '-' : formatDollars(each.hold_cost_nanousd),
      ],
    ),
    `${shown.members.length} members, ${shown.prices} prices; registration is ${shown.registration.policy}.`,
    `Total: ${total.requests} requests, ${total.refused} rejected, ${total.input_tokens} input and ` +
      `${total.output_tokens} output tokens, ${total.cost_nanousd} nano-dollars ` +
      `(${formatDollars(total.cost_nanousd)} dollars).`,
    ...(shown.accepted_before > 0
      ? [
          `${shown.accepted_before} requests were accepted before position ${read.first_position}, the ` +
            'first one read.',
        ]
      : []),
    showFaults(shown),
    ...faults.map(({ position, problem }) => `  position ${position}: ${problem}`),
    `Read ${read.events} events from position ${read.first_position} in ` +
      `${(read.elapsed_ms / 1000).toFixed(1)} s, ${read.events_per_s} events/s.`,
  ].join('\n');
}

function showTargets(terms: ModelTerms): string {
  if ('alias_of' in terms) return `alias of ${terms.alias_of}`;
  return terms.targets
    .map(
      ({ upstream, model, weight, order }) =>
        `${upstream}${model === undefined ? '' : `:${model}`} (order ${order}, weight ${weight})`,
    )
    .join(', ');
}

function showFaults({ fault_count, faults }: ReplayReport): string {
  if (fault_count === 0)
    return (
      'Every request was accepted once and ended at most once; no hard limit was exceeded; every stream ' +
      'is in order.'
    );
  return `${fault_count} violations${fault_count > faults.length ? `; the first ${faults.length} are` : ''}:`;
}

function section<T>(
  title: string,
  count: number,
  heading: string[],
  rows: readonly T[],
  cells: (row: T) => (string | number)[],
): string {
  if (count === 0) return `${title}: none.`;
  const shown = rows.slice(0, ROWS_SHOWN_MAX).map((row) => cells(row).map(String));
  const more = count > shown.length ? `\n… and ${count - shown.length} more (--json has all)` : '';
  return `\n${title}: ${count}\n${showTable(heading, shown)}${more}\n`;
}
