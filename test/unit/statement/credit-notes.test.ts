import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Event, EventOf, Placed } from '#db/events/events.ts';
import { digestOf } from '#db/statement/canonical.ts';
import type { Statement, StatementParameters } from '#db/statement/document.ts';
import { foldStatement } from '#db/statement/fold.ts';
import {
  type BillingEvent,
  billingEventsOf,
  INVOICE_GROUPS,
  isBilled,
  openInvoices,
} from '#db/statement/invoices.ts';
import { correctInvoice, creditInvoice, issueInvoice } from '#server/decide/invoice.ts';
import { accepted, settled } from '../../support/log/log-writer.ts';
import { runs } from '../../fuzz/property-runs.ts';

/** Months of one account, in which calls end, are corrected and are billed in any order. */

const ACCOUNT = 'Account1';
const MONTH_MS = 30 * 86_400_000;
const timeOf = (month: number): string => new Date(Date.UTC(2026, 0, 1) + month * MONTH_MS).toISOString();

type Call = { request: string; month: number };

class Books {
  readonly events: Placed[] = [];
  readonly calls: Call[] = [];
  month = 0;

  /** All charges and corrections. */
  get charged(): bigint {
    return this.events.reduce(
      (sum, { event }) =>
        event.type === 'request.settled' || event.type === 'usage.adjusted'
          ? sum + BigInt(event.cost_nanousd ?? 0)
          : sum,
      0n,
    );
  }

  get stream(): Placed[] {
    return this.events.filter(({ event }) => event.type.startsWith('invoice.'));
  }

  /** What all documents bill. */
  get billed(): bigint {
    return billingEventsOf(this.events).reduce((sum, event) => sum + BigInt(event.total_nanousd), 0n);
  }

  add(event: Event): void {
    const common = {
      shard: 0,
      position: this.events.length + 1,
      at: new Date(Date.parse(timeOf(this.month)) + this.events.length),
      instance: 1,
    };
    const version = event.type.startsWith('invoice.') ? this.stream.length + 1 : 1;
    this.events.push(
      'actor' in event
        ? { ...common, event, stream: 'invoice', version }
        : { ...common, event, stream: null, version: null },
    );
  }

  call(cost: number): void {
    const begun = accepted({ account: ACCOUNT });
    this.calls.push({ request: begun.request, month: this.month });
    this.add(settled(begun, { cost_nanousd: cost }));
  }

  correct(index: number, cost: number): void {
    const call = this.calls[index % this.calls.length];
    if (call === undefined) return;
    this.add({
      type: 'usage.adjusted',
      ...{ request: call.request, account: ACCOUNT, key: 'Key00001', model: 'm', end_reason: 'completed' },
      cost_nanousd: cost,
      reference: `r${this.events.length}`,
      reason: 'bill',
      adjusted_by: 'test',
    });
  }

  statement(month: number, corrections: number[] | null): Statement {
    const parameters: StatementParameters = {
      log: 'log',
      ...{ account: ACCOUNT, key: null, end_user: null },
      from: timeOf(month),
      to: timeOf(month + 1),
      corrections,
      group_by: [...INVOICE_GROUPS],
      as_of: this.events.length,
      is_final: true,
      opening_balance_nanousd: null,
    };
    const issuer = { name: 'Example', address: [], series: 'INV-' };
    return { ...foldStatement(parameters, this.events), issuer };
  }

  invoice(month: number): void {
    const isIssued = openInvoices(billingEventsOf(this.stream)).some(({ from }) => from === timeOf(month));
    if (month < 0 || month >= this.month || isIssued) return;
    const statement = this.statement(month, null);
    this.add(issueInvoice(this.stream, { statement, digest: digestOf(statement), actor: 'test' }));
  }

  note(month: number): void {
    const invoice = openInvoices(billingEventsOf(this.stream)).find(({ from }) => from === timeOf(month));
    if (invoice === undefined) return;
    const own = new Set(this.calls.filter((call) => call.month === month).map(({ request }) => request));
    const corrections = this.events
      .filter(
        ({ event, at }) =>
          event.type === 'usage.adjusted' && own.has(event.request) && at >= new Date(invoice.to),
      )
      .filter((placed) => !isBilled(this.stream, { account: ACCOUNT, end_user: null }, placed))
      .map(({ position }) => position);
    if (corrections.length === 0) return;
    const statement = this.statement(month, corrections);
    expect(statement.lines.map(({ kind }) => kind)).not.toContain('priced');
    const command = { number: invoice.number, statement, digest: digestOf(statement), actor: 'test' };
    this.add(correctInvoice(this.stream, command));
  }

  takeBack(index: number): void {
    const open = openInvoices(billingEventsOf(this.stream));
    const invoice = open[index % Math.max(1, open.length)];
    if (invoice === undefined) return;
    this.add(creditInvoice(this.stream, { number: invoice.number, reason: 'test', actor: 'test' }));
  }
}

const step = fc.oneof(
  fc.record({ kind: fc.constant('call' as const), a: fc.nat(1e6), b: fc.constant(0) }),
  fc.record({ kind: fc.constant('correct' as const), a: fc.nat(20), b: fc.integer({ min: -1e6, max: 1e6 }) }),
  fc.record({ kind: fc.constant('month' as const), a: fc.constant(0), b: fc.constant(0) }),
  fc.record({ kind: fc.constant('invoice' as const), a: fc.nat(6), b: fc.constant(0) }),
  fc.record({ kind: fc.constant('note' as const), a: fc.nat(6), b: fc.constant(0) }),
  fc.record({ kind: fc.constant('takeBack' as const), a: fc.nat(6), b: fc.constant(0) }),
);

test('invoices and credit notes bill each charge and each correction once, in any order', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const books = new Books();
      for (const { kind, a, b } of steps) {
        if (kind === 'call') books.call(a);
        if (kind === 'correct') books.correct(a, b);
        if (kind === 'month') books.month++;
        if (kind === 'invoice') books.invoice(a);
        if (kind === 'note') books.note(a);
        if (kind === 'takeBack') books.takeBack(a);
      }
      // What is left is billed at the end.
      books.month++;
      for (let month = 0; month < books.month; month++) books.invoice(month);
      for (let month = 0; month < books.month; month++) books.note(month);
      expect(books.billed).toBe(books.charged);
      const events: BillingEvent[] = billingEventsOf(books.events);
      expect(events.map(({ number }) => number)).toEqual(events.map((_, index) => index + 1));
    }),
    runs(100),
  );
});

test('an invoice and its credit notes add up to the calls of its period with their corrections', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(1e9), { minLength: 1, maxLength: 10 }),
      fc.array(fc.tuple(fc.nat(), fc.integer({ min: -1e9, max: 1e9 })), { maxLength: 10 }),
      (costs, corrections) => {
        const books = new Books();
        for (const cost of costs) books.call(cost);
        books.month = 1;
        books.invoice(0);
        for (const [index, cost] of corrections) {
          books.correct(index, cost);
          if (index % 2 === 0) books.note(0);
        }
        books.note(0);
        expect(books.billed).toBe(books.charged);
      },
    ),
  );
});

test('a statement of a credit note leaves out corrections of calls of other periods', () => {
  const books = new Books();
  books.call(100);
  books.month = 1;
  books.call(50);
  books.correct(0, -3);
  books.correct(1, -5);
  const all = books.events
    .filter(({ event }) => event.type === 'usage.adjusted')
    .map(({ position }) => position);
  expect(books.statement(0, all).totals).toMatchObject({ requests: 0, corrections: 1, cost_nanousd: '-3' });
});

test('an invoice whose statement is older than a credit note of its account is refused', () => {
  const books = new Books();
  books.call(100);
  books.month = 1;
  books.invoice(0);
  books.correct(0, -3);
  books.month = 2;
  const stale = books.statement(1, null);
  books.note(0);
  const command = { statement: stale, digest: digestOf(stale), actor: 'test' };
  expect(() => issueInvoice(books.stream, command)).toThrow(/issued meanwhile/);
  books.invoice(1);
  const second = books.events.at(-1)?.event as EventOf<'invoice.issued'>;
  expect(second.total_nanousd).toBe('0');
});
