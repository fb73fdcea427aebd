import { Link } from '@tanstack/react-router';
import type { PastState, SubjectState } from '#server/contract/audit.ts';
import { useAccountNames } from '../../lib/api/names.ts';
import { capitalized, showCount } from '../../lib/format/show.ts';
import type { StateSearch } from '../../lib/search/state.ts';
import { CommandLine } from '../../ui/command-line.tsx';
import { Badge, Card, Empty, Facts } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { When } from '../../ui/when.tsx';

const ACTIVE_STATES = new Set(['active', 'rotating']);
const EVENTS: readonly Column<PastState['events'][number]>[] = [
  {
    head: 'Position',
    cell: ({ position }) => (
      <Link to="/audit" search={{ at: position }} className="underline hover:text-accent">
        {showCount(position)}
      </Link>
    ),
  },
  { head: 'Time', cell: ({ at }) => <When time={at} /> },
  { head: 'Event', cell: ({ type }) => <code className="font-mono text-xs">{type}</code> },
];

/** The state, and the events that produced it. */
export function StateResult({ then, search }: { then: PastState; search: StateSearch }) {
  const { subject, position, head } = then;
  return (
    <>
      <Card
        title={
          <span className="flex flex-wrap items-center gap-x-2">
            {subject === null ? 'Not created yet' : subject.name}{' '}
            {subject !== null && (
              <Badge tone={ACTIVE_STATES.has(subject.state) ? 'success' : 'warn'}>
                {capitalized(subject.state)}
              </Badge>
            )}
          </span>
        }
      >
        <p className="mb-3 text-muted">
          {position === head
            ? `Current state, position ${showCount(position)}`
            : `Position ${showCount(position)}`}
          {then.at !== null && (
            <>
              {', '}
              <When time={then.at} />
            </>
          )}
          .
        </p>
        {subject === null ? (
          <Empty icon="clock" title="Not created yet">
            <p>Its first event was recorded after this position.</p>
          </Empty>
        ) : (
          <Subject subject={subject} />
        )}
      </Card>
      {then.events.length > 0 && (
        <Card title="Events" flush>
          <Table
            label="Events"
            rows={then.events}
            keyOf={(event) => String(event.position)}
            columns={EVENTS}
          />
          {then.events_omitted > 0 && (
            <p className="border-t border-line px-4 py-2 text-xs text-muted">
              {showCount(then.events_omitted)} older events.
            </p>
          )}
        </Card>
      )}
      <Card title="Usage and quotas">
        <p className="mb-2">Past usage requires a replay of all requests. Run this on the server:</p>
        <CommandLine
          command={[
            'npm run -s daybook -- audit replay --at',
            position,
            ...(search.account === undefined ? [] : ['--account', search.account]),
          ].join(' ')}
        />
      </Card>
    </>
  );
}

function Subject({ subject }: { subject: SubjectState }) {
  const accountName = useAccountNames();
  switch (subject.kind) {
    case 'account':
      return (
        <Facts
          facts={[
            ['Plan', subject.plan ?? 'No plan (unlimited)'],
            [
              'Plan override',
              subject.override === null ? 'None' : describeTerms(subject.override, 'override'),
            ],
            ['Limits', describeTerms(subject.terms, 'plan')],
          ]}
        />
      );
    case 'key':
      return (
        <Facts
          facts={[
            ['Account', accountName(subject.account)],
            [
              'Secret',
              <code key="last4" className="font-mono text-xs">
                {subject.last4}
              </code>,
            ],
            ['Created', <When key="created" time={subject.created_at} />],
            [
              'Expires',
              subject.expires_at === null ? 'Never' : <When key="expires" time={subject.expires_at} />,
            ],
            ['Revoked', subject.revoked_at !== null && <When key="revoked" time={subject.revoked_at} />],
            [
              'Old secret',
              subject.old_secret_until !== null && (
                <>
                  valid until <When key="old" time={subject.old_secret_until} />
                </>
              ),
            ],
            ['Limits', describeTerms(subject.terms ?? {}, 'key')],
          ]}
        />
      );
    case 'plan':
      return <Facts facts={[['Limits', describeTerms(subject.terms, 'plan')]]} />;
  }
}
