import { setTimeout as wait } from 'node:timers/promises';
import { closeClient } from '#db/postgres/connect.ts';
import { BillingControl } from '#server/control/billing-control.ts';
import { withControl } from '#server/control/control.ts';
import type { TestDashboard } from '../support/browser/dashboard-browser.ts';
import { connectAs } from '../support/log/log-writer.ts';

/** Statements are final five seconds after their period. */
const FINAL_MS = 6_000;

/** Issues invoices of the month until now, and takes one back. Later corrections are not billed yet. */
export async function seedInvoices({ relay }: TestDashboard, accounts: readonly string[]): Promise<void> {
  const to = new Date();
  const period = { from: new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth())), to, end_user: null };
  await wait(FINAL_MS);
  await withControl(relay.store, 'look', async (control, client) => {
    const billing = new BillingControl(control, client);
    const address = ['1 Example Street', '10115 Berlin'];
    const currency = { code: 'EUR', rate: '0.92', digits: 2 };
    await billing.setIssuer({
      name: 'Example Ltd',
      address,
      tax: 'VAT DE123456789',
      series: 'INV-',
      currency,
    });
    for (const id of accounts) await billing.issue({ id }, period);
    await billing.credit(accounts.length, 'Billed to the wrong address.');
  });
}

/** Emails in every state to recipients of an account. */
export async function seedEmails({ relay }: TestDashboard, account: string): Promise<void> {
  const client = await connectAs(relay.store, 'owner');
  await client.query(
    `insert into daybook.statement_schedule (day, on_since) values (3, now() - interval '90 days')
      on conflict (only_row) do update set day = excluded.day, on_since = excluded.on_since`,
  );
  await client.query(
    `insert into daybook.statement_recipient (account, email, added_at)
      select $1, email, now() - interval '90 days'
        from unnest('{billing@example.com,accounts.payable@subsidiary.example.com}'::text[]) as email`,
    [account],
  );
  await client.query(
    `insert into daybook.statement_email (account, email, month, invoice, is_monthly, state, ended_at,
        attempts, due_at, status, fault)
      values ($1, 'billing@example.com', '2026-10', null, true, 'sent', now() - interval '20 days', 1, now(),
          250, null),
        ($1, 'accounts.payable@subsidiary.example.com', '2026-10', null, true, 'failed',
          now() - interval '19 days', 9, now(), null, 'ECONNREFUSED'),
        ($1, 'billing@example.com', null, 1, false, 'waiting', null, 2, now() + interval '1 day', 451, null),
        ($1, 'billing@example.com', '2026-09', null, true, 'skipped', now() - interval '50 days', 0, now(),
          null, null)`,
    [account],
  );
  await closeClient(client);
}
