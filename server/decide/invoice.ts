import { BillingTerms } from '#db/events/billing-events.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import type { Statement } from '#db/statement/document.ts';
import {
  billingEventsOf,
  type CorrectionNote,
  type Invoice,
  liveNotes,
  openInvoices,
} from '#db/statement/invoices.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** Invoices, credit notes, and who issues them. Pure. */

/** Sets the issuer; null when it is just this one. @throws {DecisionError} when the terms are invalid. */
export function changeBilling(
  current: BillingTerms | null,
  command: { terms: unknown; actor: string },
): EventOf<'billing.changed'> | null {
  const parsed = BillingTerms.safeParse(command.terms);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new DecisionError(
      'invalid',
      `The issuer is invalid: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}.`,
    );
  }
  if (current !== null && JSON.stringify(BillingTerms.parse(current)) === JSON.stringify(parsed.data))
    return null;
  return { type: 'billing.changed', terms: parsed.data, actor: command.actor };
}

/** The invoice of a subject and period that no credit note takes back; undefined: not issued. */
export function findInvoice(
  stream: readonly Placed[],
  { account, end_user: endUser, from, to }: Pick<Statement, 'account' | 'end_user' | 'from' | 'to'>,
): Invoice | undefined {
  return openInvoices(billingEventsOf(stream)).find(
    (invoice) =>
      invoice.account === account &&
      (invoice.end_user ?? null) === endUser &&
      invoice.from === from &&
      invoice.to === to,
  );
}

/**
 * Issues the invoice of a statement, under the next number.
 * @param stream all invoices and credit notes: their versions are the numbers.
 * @throws {DecisionError} when no issuer is set, or the period is not over.
 */
export function issueInvoice(
  stream: readonly Placed[],
  command: { statement: Statement; digest: string; actor: string },
): Invoice {
  const { statement, digest, actor } = command;
  const {
    account,
    end_user: endUser,
    from,
    to,
    as_of,
    is_final: isFinal,
    issuer,
    totals,
    balance,
  } = statement;
  if (issuer === null)
    throw new DecisionError('not_allowed', 'No issuer is set. Set one: daybook invoice issuer --name …');
  if (!isFinal)
    throw new DecisionError('not_allowed', `The period ends at ${to}. Issue its invoice some seconds later.`);
  // A credit note that the statement doesn't know could bill a correction that the invoice bills too.
  if (stream.some((placed) => placed.position > as_of && isNoteOf(placed, account)))
    throw new DecisionError('not_allowed', 'A credit note was issued meanwhile. Issue the invoice again.');
  return {
    type: 'invoice.issued',
    account,
    ...(endUser === null ? {} : { end_user: endUser }),
    series: issuer.series,
    number: stream.length + 1,
    from,
    to,
    as_of,
    total_nanousd: totals.due_nanousd,
    ...(balance === null ? {} : { closing_balance_nanousd: balance.closing_nanousd }),
    digest,
    actor,
  };
}

const isNoteOf = ({ event }: Placed, account: string): boolean =>
  (event.type === 'invoice.corrected' || event.type === 'invoice.credited') && event.account === account;

/**
 * Issues the credit note of corrections, under the next number.
 * @param statement of the corrections.
 * @throws {DecisionError} when the invoice doesn't stand.
 */
export function correctInvoice(
  stream: readonly Placed[],
  command: { number: number; statement: Statement; digest: string; actor: string },
): CorrectionNote {
  const { statement, digest, actor } = command;
  const { account, end_user: endUser, from, to, as_of, corrections, totals } = statement;
  const invoice = requireOpen(stream, command.number);
  return {
    type: 'invoice.corrected',
    account,
    ...(endUser === null ? {} : { end_user: endUser }),
    series: statement.issuer?.series ?? invoice.series,
    number: stream.length + 1,
    invoice: invoice.number,
    invoice_series: invoice.series,
    from,
    to,
    as_of,
    corrections: corrections ?? [],
    total_nanousd: totals.cost_nanousd,
    digest,
    actor,
  };
}

/** The invoice with a number. @throws {DecisionError} when it does not exist, or was taken back. */
export function requireOpen(stream: readonly Placed[], number: number): Invoice {
  const events = billingEventsOf(stream);
  const open = openInvoices(events).find((each) => each.number === number);
  if (open !== undefined) return open;
  if (events.some((event) => event.type === 'invoice.issued' && event.number === number))
    throw new DecisionError('already_done', `Invoice number ${number} was credited before.`);
  throw new DecisionError('not_found', `There is no invoice with number ${number}.`);
}

/**
 * Takes an invoice back with the credit notes over its corrections, under the next number.
 * @throws {DecisionError} when there is no such invoice, or it was credited before.
 */
export function creditInvoice(
  stream: readonly Placed[],
  command: { number: number; reason: string; actor: string },
): EventOf<'invoice.credited'> {
  const { number, actor } = command;
  const reason = command.reason.trim();
  if (reason === '' || reason.length > 200)
    throw new DecisionError('invalid', 'A reason has 1 to 200 characters.');
  const invoice = requireOpen(stream, number);
  const { account, series } = invoice;
  const notes = liveNotes(billingEventsOf(stream), { account, end_user: invoice.end_user ?? null });
  const total = [invoice, ...notes.filter((note) => note.invoice === number)].reduce(
    (sum, each) => sum + BigInt(each.total_nanousd),
    0n,
  );
  return {
    type: 'invoice.credited',
    account,
    series,
    number: stream.length + 1,
    invoice: number,
    total_nanousd: String(-total),
    reason,
    actor,
  };
}
