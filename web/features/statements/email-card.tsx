import { useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import type { StatementEmailRow } from '#server/contract/statements.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Badge, Card, Facts, type Tone } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';
import { monthName } from './period.ts';
import { emailsQuery, invoicesQuery } from './queries.ts';
import { lazyPart } from '../../lib/lazy-part.ts';

const EmailSettingsDialog = lazyPart(() => import('./email-settings.tsx'), 'EmailSettingsDialog');
const SendStatementDialog = lazyPart(() => import('./send-statement.tsx'), 'SendStatementDialog');

/** Statements of an account by email: monthly, and on demand. */
export function EmailCard({ account, nowMs }: { account: string; nowMs: number }) {
  const query = useQuery(emailsQuery(account));
  const invoices = useQuery(invoicesQuery).data?.data ?? [];
  const names = new Map(invoices.map(({ number, name }) => [number, name]));
  const isAdministrator = useIsAdministrator();
  const [open, setOpen] = useState<'settings' | 'send' | null>(null);
  const close = (): void => setOpen(null);
  const emails = query.data;
  return (
    <Card
      title="Email"
      flush
      actions={
        isAdministrator &&
        emails !== undefined && (
          <>
            <Button onClick={() => setOpen('settings')}>Edit email settings</Button>
            {emails.recipients.length > 0 && <Button onClick={() => setOpen('send')}>Send statement</Button>}
          </>
        )
      }
    >
      <Loaded query={query} title="Couldn’t load email settings" height="h-24">
        {({ schedule, has_mail_server: hasMailServer, recipients, data }) => (
          <>
            <div className="p-4">
              <Facts
                facts={[
                  ['Monthly', schedule.enabled ? `On day ${schedule.day} of the next month (UTC)` : 'Off'],
                  ['Recipients', recipients.length === 0 ? 'None' : recipients.join(', ')],
                  [
                    'Mail server',
                    !hasMailServer &&
                      'Not set on this server. A worker with SMTP_URL and SMTP_FROM sends emails.',
                  ],
                ]}
              />
            </div>
            {data.length > 0 && (
              <div className="border-t border-line">
                <Table
                  label="Emails"
                  rows={data}
                  keyOf={({ recipient, created_at: at, period, invoice }) =>
                    `${recipient} ${at} ${period ?? invoice}`
                  }
                  columns={columnsOf(names)}
                />
              </div>
            )}
          </>
        )}
      </Loaded>
      <Suspense>
        {open === 'settings' && emails !== undefined && (
          <EmailSettingsDialog account={account} emails={emails} onClose={close} />
        )}
        {open === 'send' && emails !== undefined && (
          <SendStatementDialog account={account} emails={emails} nowMs={nowMs} onClose={close} />
        )}
      </Suspense>
    </Card>
  );
}

const STATES: Record<StatementEmailRow['state'], { name: string; tone: Tone }> = {
  waiting: { name: 'Pending', tone: 'warn' },
  sent: { name: 'Sent', tone: 'success' },
  skipped: { name: 'No activity', tone: 'plain' },
  failed: { name: 'Failed', tone: 'danger' },
};

/** @param names of invoices and credit notes by their numbers. */
const columnsOf = (names: ReadonlyMap<number, string>): Column<StatementEmailRow>[] => [
  {
    head: 'Document',
    cell: ({ period, invoice, monthly, recipient }) => (
      <>
        <p className="font-medium">
          {period === null ? (names.get(invoice ?? 0) ?? `Number ${invoice}`) : monthName(period)}
        </p>
        <p className="text-xs text-muted">{monthly ? 'Monthly' : 'On demand'}</p>
        <p className="text-xs wrap-anywhere text-muted md:hidden">{recipient}</p>
      </>
    ),
  },
  {
    head: 'Recipient',
    isExtra: true,
    cell: ({ recipient }) => <span className="wrap-anywhere">{recipient}</span>,
  },
  {
    head: 'State',
    cell: ({ state, attempts, status, fault }) => (
      <>
        <Badge tone={STATES[state].tone}>{STATES[state].name}</Badge>
        {(state === 'failed' || (state === 'waiting' && attempts > 0)) && (
          <p className="mt-1 text-xs wrap-anywhere text-muted">
            {showCounted(attempts, 'attempt')}
            {fault !== null ? `: ${fault}` : status !== null && `: reply ${status}`}
          </p>
        )}
      </>
    ),
  },
  {
    head: 'Time',
    isExtra: true,
    cell: ({ ended_at: ended, created_at: created }) => <When time={ended ?? created} form="date" />,
  },
];
