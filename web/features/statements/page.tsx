import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { Suspense, useState } from 'react';
import { queryString } from '../../lib/api/api.ts';
import { accountsQuery, useIsOverseer } from '../../lib/api/names.ts';
import { useIsAdministrator, useMe } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Download } from '../../ui/download.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { EmailCard } from './email-card.tsx';
import { Invoices } from './invoices.tsx';
import { IssuerCard } from './issuer-card.tsx';
import { monthName, newestMonths, periodOf } from './period.ts';
import { invoicesQuery, issuerQuery, statementQuery } from './queries.ts';
import { StatementView } from './statement-view.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const IssueInvoiceDialog = lazyPart(() => import('./issue-invoice.tsx'), 'IssueInvoiceDialog');

const FORMATS = [
  { format: 'pdf', name: 'PDF' },
  { format: 'csv', name: 'CSV' },
  { format: 'json', name: 'JSON' },
  { format: 'proof', name: 'Proof' },
] as const;

/** The statement of an account and period, and the invoices. */
export function StatementsPage() {
  const search = useSearch({ from: '/inside/statements' });
  const isAdministrator = useIsAdministrator();
  const isOverseer = useIsOverseer();
  const { account: own } = useMe();
  const [isOpen, setIsOpen] = useState(false);
  const [nowMs] = useState(() => Date.now());
  const period = periodOf(search, nowMs);
  const account = search.account ?? own.id;
  const wanted = period && {
    ...period,
    ...(isOverseer ? { account } : {}),
    end_user: search.end_user,
    group_by: search.group,
  };
  const query = useQuery(statementQuery(wanted && queryString(wanted)));
  useNotices(['invoice.', 'billing.'], [invoicesQuery.queryKey, issuerQuery.queryKey]);
  useShortcuts(isAdministrator ? { n: () => setIsOpen(true) } : {});
  return (
    <>
      <PageHead title="Statements" about="Usage and charges of a period, provable from the event log.">
        {isAdministrator && (
          <Button look="primary" icon="plus" onClick={() => setIsOpen(true)} title="n">
            Issue invoice
          </Button>
        )}
      </PageHead>
      <div className="flex flex-col gap-4">
        <Card
          title="Statement"
          actions={
            wanted !== null &&
            FORMATS.map(({ format, name }) => (
              <Download
                key={format}
                href={`/api/v1/statements${queryString({ ...wanted, format })}`}
                name={name}
                title={`Download the statement as ${name}`}
              />
            ))
          }
        >
          <div className="flex flex-col gap-5">
            <Choice nowMs={nowMs} />
            {wanted === null ? (
              <p className="text-muted">Choose the first and the last day.</p>
            ) : (
              <Loaded query={query} title="Couldn’t load the statement">
                {(statement) => <StatementView statement={statement} />}
              </Loaded>
            )}
          </div>
        </Card>
        <Invoices />
        <EmailCard key={account} account={account} nowMs={nowMs} />
        {isOverseer && <IssuerCard />}
      </div>
      <Suspense>
        {isOpen && <IssueInvoiceDialog account={account} nowMs={nowMs} onClose={() => setIsOpen(false)} />}
      </Suspense>
    </>
  );
}

/** Chooses the account, period and groups. */
function Choice({ nowMs }: { nowMs: number }) {
  const search = useSearch({ from: '/inside/statements' });
  const change = useSearchChange({ replace: true });
  const isOverseer = useIsOverseer();
  const { account: own } = useMe();
  const accounts = useQuery({ ...accountsQuery, enabled: isOverseer }).data ?? [own];
  const months = newestMonths(nowMs);
  const orNothing = (value: string): string | undefined => value || undefined;
  return (
    <div className="grid grid-cols-1 gap-3 sm:grid-cols-2 lg:grid-cols-4">
      {isOverseer && (
        <SelectField
          label="Account"
          value={search.account ?? own.id}
          onChange={({ target }) => change({ account: target.value, end_user: undefined })}
        >
          {accounts.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
      )}
      <SelectField
        label="Period (UTC)"
        value={search.period ?? months[0]}
        onChange={({ target }) => change({ period: target.value })}
      >
        {months.map((month) => (
          <option key={month} value={month}>
            {monthName(month)}
          </option>
        ))}
        <option value="custom">Custom dates</option>
      </SelectField>
      {search.period === 'custom' && (
        <>
          <TextField
            label="First day"
            type="date"
            value={search.from ?? ''}
            onChange={({ target }) => change({ from: orNothing(target.value) })}
          />
          <TextField
            label="Last day"
            type="date"
            value={search.to ?? ''}
            onChange={({ target }) => change({ to: orNothing(target.value) })}
          />
        </>
      )}
      <SelectField
        label="Lines by"
        value={search.group ?? ''}
        onChange={({ target }) => change({ group: orNothing(target.value) })}
      >
        <option value="">Model</option>
        <option value="day">Model and day</option>
        <option value="key">Model and key</option>
        <option value="end_user">Model and end user</option>
      </SelectField>
      <TextField
        label="End user"
        placeholder="All"
        maxLength={16}
        pattern="[0-9A-Za-z]{16}"
        autoComplete="off"
        spellCheck={false}
        defaultValue={search.end_user ?? ''}
        key={search.account}
        onBlur={({ target }) => {
          if (target.validity.valid) change({ end_user: orNothing(target.value) });
        }}
      />
    </div>
  );
}
