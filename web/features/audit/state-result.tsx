import { Link } from '@tanstack/react-router';
import type { PastState, SubjectState } from '#server/contract/audit.ts';
import { useAccountNames } from '../../lib/names.ts';
import { showCount, showCounted } from '../../lib/show.ts';
import type { StateSearch } from '../../lib/state-search.ts';
import { CommandLine } from '../../ui/command-line.tsx';
import { Badge, Card, Empty, Facts } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { When } from '../../ui/when.tsx';

const GOOD = new Set(['active', 'rotating']);
const EVENTS: readonly Column<PastState['events'][number]>[] = [
  {
    head: 'Position',
    cell: ({ position }) => (
      <Link to="/audit" search={{ at: position }} className="underline hover:text-accent">
        {showCount(position)}
      </Link>
    ),
  },
  { head: 'When', cell: ({ at }) => <When time={at} /> },
  { head: 'Event', cell: ({ type }) => <code className="font-mono text-xs">{type}</code> },
];

/** The state then, and the events that made it. */
export function StateResult({ then, search }: { then: PastState; search: StateSearch }) {
  const { subject, position, head } = then;
  return (
    <>
      <Card
        title={
          <span className="flex flex-wrap items-center gap-x-2">
            {subject === null ? 'Nothing yet' : subject.name}{' '}
            {subject !== null && (
              <Badge tone={GOOD.has(subject.state) ? 'good' : 'warn'}>{subject.state}</Badge>
            )}
          </span>
        }
      >
        <p className="mb-3 text-muted">
          {position === head
            ? `As of now, position ${showCount(position)}`
            : `As of position ${showCount(position)}`}
          {then.at !== null && (
            <>
              {', '}
              <When time={then.at} />
            </>
          )}
          .
        </p>
        {subject === null ? (
          <Empty icon="clock" title="It was not there yet">
            <p>Its first event stands behind this place in the log.</p>
          </Empty>
        ) : (
          <Subject subject={subject} />
        )}
      </Card>
      {then.events.length > 0 && (
        <Card title="The events that made it so" flush>
          <Table
            label="Events"
            rows={then.events}
            keyOf={(event) => String(event.position)}
            columns={EVENTS}
          />
          {then.events_omitted > 0 && (
            <p className="border-t border-line px-4 py-2 text-xs text-muted">
              And {showCounted(then.events_omitted, 'older one')}.
            </p>
          )}
        </Card>
      )}
      <Card title="Usage and quotas then">
        <p className="mb-2">
          What had been used takes a replay of all calls up to there, so it is for the command line:
        </p>
        <CommandLine
          command={`npm run -s daybook -- audit replay --at ${position}${search.account === undefined ? '' : ` --account ${search.account}`}`}
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
            ['Plan', subject.plan ?? 'none, which limits nothing'],
            [
              'Of its own',
              subject.override === null
                ? 'nothing: as in the plan'
                : describeTerms(subject.override, 'override'),
            ],
            ['Might use', describeTerms(subject.terms, 'plan')],
          ]}
        />
      );
    case 'key':
      return (
        <Facts
          facts={[
            ['Account', accountName(subject.account)],
            [
              'Secret ends in',
              <code key="last4" className="font-mono text-xs">
                {subject.last4}
              </code>,
            ],
            ['Created', <When key="created" time={subject.created_at} />],
            [
              'Good until',
              subject.expires_at === null ? (
                'no end was set'
              ) : (
                <When key="expires" time={subject.expires_at} />
              ),
            ],
            ['Revoked', subject.revoked_at !== null && <When key="revoked" time={subject.revoked_at} />],
            [
              'Old secret',
              subject.old_secret_until !== null && (
                <>
                  good until <When key="old" time={subject.old_secret_until} />
                </>
              ),
            ],
            ['Might use', describeTerms(subject.terms ?? {}, 'key')],
          ]}
        />
      );
    case 'plan':
      return <Facts facts={[['Gives', describeTerms(subject.terms, 'plan')]]} />;
  }
}
