import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import type { ForecastRow, LimitRow } from '#server/contract/limits.ts';
import { useForecasts, useLimits } from '../../lib/api/limits.ts';
import { accountsQuery, useIsOverseer } from '../../lib/api/names.ts';
import { useIsAdministrator, useMe } from '../../lib/api/session.ts';
import { showCount } from '../../lib/format/show.ts';
import { useFeed } from '../../lib/feed/use-feed.ts';
import { quotasOfLimits } from '../../ui/adjust/quotas.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Select } from '../../ui/form/field.tsx';
import { LiveMark } from '../../ui/live-mark.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Badge, Card, Empty } from '../../ui/layout/parts.tsx';
import { AdjustDialog } from './adjust-dialog.tsx';
import { LimitItem } from './limit-item.tsx';
import { RejectionsCard } from './rejections-card.tsx';

/** Limits of an account and its keys, with usage and the errors returned when they are reached. */
export function LimitsPage() {
  const { account: own } = useMe();
  const { account: asked } = useSearch({ from: '/inside/limits' });
  const isOverseer = useIsOverseer();
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [];
  const account = (isOverseer ? asked : undefined) ?? own.id;
  // Other accounts' names and plans come from the account list.
  const shown = accounts.find(({ id }) => id === account) ?? (account === own.id ? own : undefined);
  const query = useLimits(account);
  const forecastOf = useForecasts(account);
  useFeed(isOverseer ? { account } : {}, null);
  /** The key whose quotas are adjusted with the account's; empty: none. Null: the dialog is closed. */
  const [adjusting, setAdjusting] = useState<string | null>(null);
  return (
    <>
      <PageHead title="Limits" about="Rate limits and quotas, and how much is left. Always up to date.">
        <LiveMark />
        {isOverseer && (
          <AccountChoice account={account} accounts={accounts.length === 0 ? [own] : accounts} />
        )}
      </PageHead>
      <Loaded query={query} title="Couldn’t load limits" height="h-96">
        {({ data: rows, rows_omitted }) => (
          <div className="flex flex-col gap-4 *:min-w-0">
            <Subject
              title={`Account ${shown?.name ?? account}`}
              plan={shown?.plan}
              rows={rows.filter(({ key_name }) => key_name === null)}
              forecastOf={forecastOf}
              onAdjust={() => setAdjusting('')}
            />
            {keysOf(rows).map(([subject, ofKey]) => (
              <Subject
                key={subject}
                title={`Key ${ofKey[0]?.key_name ?? ''}`}
                rows={ofKey}
                forecastOf={forecastOf}
                onAdjust={() => setAdjusting(subject.slice('key/'.length))}
              />
            ))}
            {rows_omitted > 0 && (
              <p className="text-muted">{showCount(rows_omitted)} more key limits are not shown.</p>
            )}
            {rows.length > 0 && <RejectionsCard rows={rows} />}
            {adjusting !== null && (
              <AdjustDialog
                account={account}
                name={shown?.name ?? account}
                rows={rows}
                ofKey={adjusting}
                onClose={() => setAdjusting(null)}
              />
            )}
          </div>
        )}
      </Loaded>
    </>
  );
}

const keysOf = (rows: readonly LimitRow[]): [string, LimitRow[]][] => [
  ...Map.groupBy(
    rows.filter(({ key_name }) => key_name !== null),
    ({ subject }) => subject,
  ),
];

/** The limits of one account or key. */
function Subject({
  title,
  plan,
  rows,
  forecastOf,
  onAdjust,
}: {
  title: string;
  /** Undefined for keys, and if it is not known. */ plan?: string | null | undefined;
  rows: readonly LimitRow[];
  forecastOf: (row: LimitRow) => ForecastRow | undefined;
  onAdjust: () => void;
}) {
  const isAdjustable = useIsAdministrator() && quotasOfLimits(rows).length > 0;
  const actions = (
    <>
      {plan !== undefined && <Badge>{plan === null ? 'No plan' : `Plan ${plan}`}</Badge>}
      {isAdjustable && (
        <Button icon="bars" onClick={onAdjust}>
          Adjust usage
        </Button>
      )}
    </>
  );
  return (
    <Card title={<span className="break-words">{title}</span>} actions={actions}>
      {rows.length === 0 ? (
        <Unlimited />
      ) : (
        <ul className="grid gap-x-10 gap-y-6 lg:grid-cols-2">
          {rows.map((row) => (
            <li key={`${row.meter} ${row.window}`}>
              <LimitItem row={row} forecast={forecastOf(row)} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Unlimited() {
  const { member } = useMe();
  return (
    <Empty icon="gauge" title="No limits">
      <p>
        Usage is tracked but not limited.{' '}
        {member.role === 'administrator'
          ? 'Assign a plan to set limits.'
          : 'Keys can have limits of their own.'}
      </p>
      {member.role === 'administrator' && (
        <Link to="/admin/plans" className={buttonClass('plain', 'mt-3')}>
          View plans
        </Link>
      )}
    </Empty>
  );
}

function AccountChoice({
  account,
  accounts,
}: {
  account: string;
  accounts: readonly { id: string; name: string }[];
}) {
  const navigate = useNavigate({ from: '/limits' });
  return (
    <Select
      aria-label="Account"
      value={account}
      onChange={({ currentTarget }) => void navigate({ search: { account: currentTarget.value } })}
      className="w-48"
    >
      <NamedOptions rows={accounts} chosen={account} />
    </Select>
  );
}
