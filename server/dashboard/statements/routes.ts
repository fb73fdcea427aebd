import { ChangeReply } from '#server/contract/parts.ts';
import {
  CreditInvoice,
  InvoiceChange,
  InvoiceList,
  InvoiceQuery,
  type InvoiceRow,
  IssueInvoice,
  Issuer,
  PutIssuer,
  StatementQuery,
  StatementDocument,
  UnbilledCorrections,
} from '#server/contract/statements.ts';
import type { Placed } from '#db/events/events.ts';
import { parseMonth } from '#db/audit/replay/statement.ts';
import { INVOICE_GROUPS, invoiceName, isBillingEvent } from '#db/statement/invoices.ts';
import { readInvoices, readStatement } from '#db/statement/read.ts';
import { BillingControl, readIssued, readIssuer, readUnbilledOf } from '#server/control/billing-control.ts';
import { readBilled } from '#db/statement/issued.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { INVOICES_LISTED_MAX } from '#server/dashboard/bounds.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import {
  ADMINISTRATORS,
  ADMINISTRATORS_AND_AUDITORS,
  ANY_ROLE,
  type ApiRoute,
  route,
  scopeOfMember,
} from '#server/dashboard/gate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import {
  answerStatement,
  readBounded,
  replyWithStatement,
  type Statements,
} from '#server/read/statements.ts';
import type { Source } from '#server/read/store.ts';

/** Streams of control events alone. */
const CONTROL: Source = { projection: 'directory', tables: [] };
const NOT_FOUND = new ApiError('not_found');

/** Statements and invoices: members read those of their account, administrators issue them. */
export function statementRoutes(dashboard: Dashboard): ApiRoute[] {
  const { reads, relay, config } = dashboard;
  const statements: Statements = { reads, witnesses: config.WITNESSES };
  return [
    route(
      'get',
      '/api/v1/statements',
      'usage:read',
      ANY_ROLE,
      { query: StatementQuery, reply: StatementDocument, others: ['text/csv', 'application/pdf'] },
      ({ request, response }, who) => {
        const reader = { scope: scopeOfMember(who), holder: holderOf(who), request, response };
        return withReadSlot(reads, reader.holder, () => answerStatement(statements, reader));
      },
    ),

    route('get', '/api/v1/invoices', 'usage:read', ANY_ROLE, { reply: InvoiceList }, async (_call, who) => {
      const { account } = scopeOfMember(who);
      const read = await withReadSlot(reads, holderOf(who), () => reads.read(CONTROL, readInvoices));
      return read instanceof ApiError
        ? read
        : listInvoices(
            read.found.map(({ placed }) => placed),
            account,
          );
    }),

    route(
      'get',
      '/api/v1/invoices/:number',
      'usage:read',
      ANY_ROLE,
      { query: InvoiceQuery, reply: StatementDocument, others: ['text/csv', 'application/pdf'] },
      ({ params, request, response }, who) => {
        const query = readQuery(InvoiceQuery, request.url);
        const number = parseNumber(params);
        const { account } = scopeOfMember(who);
        if (query instanceof ApiError) return Promise.resolve(query);
        if (number instanceof ApiError) return Promise.resolve(number);
        return withReadSlot(reads, holderOf(who), async () => {
          const read = await reads.read(CONTROL, (client) => readIssued(client, number));
          if (read instanceof ApiError) return read;
          const issued = read.found;
          if (account !== null && issued.document.account !== account) return NOT_FOUND;
          return replyWithStatement(statements, response, query.format, async (client, bounds) => ({
            read: await readBilled(client, issued.document, bounds),
            issued,
          }));
        });
      },
    ),

    route(
      'post',
      '/api/v1/invoices',
      'usage:write',
      ADMINISTRATORS,
      { body: IssueInvoice, reply: InvoiceChange },
      async ({ body, response }, who) => {
        const { account, period, end_user = null } = body;
        const month = parseMonth(period);
        if (month === null || relay.readModel.account(account) === undefined) return NOT_FOUND;
        const subject = {
          ...{ account, end_user, from: month.from, to: month.until },
          ...{ group_by: INVOICE_GROUPS, fromLog: true },
        };
        const read = await withReadSlot(reads, holderOf(who), () =>
          readBounded(reads, response, (client, bounds) =>
            readStatement(client, subject, { ...bounds, entriesMax: 0 }),
          ),
        );
        if (read instanceof ApiError) return read;
        const { statement } = read;
        const made = await makeChange(dashboard, who, (control, client) =>
          new BillingControl(control, client).issueOf(statement),
        );
        return made instanceof ApiError ? made : changeOf(made);
      },
    ),

    route(
      'post',
      '/api/v1/invoices/:number/credit',
      'usage:write',
      ADMINISTRATORS,
      { body: CreditInvoice, reply: InvoiceChange },
      async ({ params, body }, who) => {
        const number = parseNumber(params);
        if (number instanceof ApiError) return number;
        const made = await makeChange(dashboard, who, (control, client) =>
          new BillingControl(control, client).credit(number, body.reason),
        );
        return made instanceof ApiError ? made : changeOf(made);
      },
    ),

    route(
      'get',
      '/api/v1/invoices/:number/corrections',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: UnbilledCorrections },
      async ({ params, response }, who) => {
        const number = parseNumber(params);
        if (number instanceof ApiError) return number;
        const read = await withReadSlot(reads, holderOf(who), () =>
          readBounded(reads, response, async (client) => {
            const issued = await readIssued(client, number);
            return issued.document.type === 'invoice.issued' ? readUnbilledOf(client, issued.document) : [];
          }),
        );
        return read instanceof ApiError
          ? read
          : ({ object: 'corrections', count: read.length } satisfies UnbilledCorrections);
      },
    ),

    route(
      'post',
      '/api/v1/invoices/:number/corrections',
      'usage:write',
      ADMINISTRATORS,
      { reply: InvoiceChange },
      async ({ params }, who) => {
        const number = parseNumber(params);
        if (number instanceof ApiError) return number;
        const made = await makeChange(dashboard, who, async (control, client) => {
          const issued = await new BillingControl(control, client).correct(number);
          if (issued === null)
            throw new DecisionError('not_allowed', 'No correction that is not billed concerns this invoice.');
          return issued;
        });
        return made instanceof ApiError ? made : changeOf(made);
      },
    ),

    route(
      'get',
      '/api/v1/issuer',
      'usage:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: Issuer },
      async (_call, who) => {
        const read = await withReadSlot(reads, holderOf(who), () => reads.read(CONTROL, readIssuer));
        return read instanceof ApiError ? read : ({ object: 'issuer', terms: read.found } satisfies Issuer);
      },
    ),

    route(
      'put',
      '/api/v1/issuer',
      'usage:write',
      ADMINISTRATORS,
      { body: PutIssuer, reply: ChangeReply },
      ({ body }, who) =>
        makeChange(dashboard, who, (control, client) => new BillingControl(control, client).setIssuer(body)),
    ),
  ];
}

type Issued = { event: InvoiceChange['event']; invoice: Parameters<typeof invoiceName>[0] };
const changeOf = ({ event, invoice }: Issued): InvoiceChange => ({ event, name: invoiceName(invoice) });

/** The number of an invoice from the path. A malformed number is as unknown as an unused one. */
function parseNumber(params: Readonly<Record<string, string>>): number | ApiError {
  const text = params['number'] ?? '';
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : NOT_FOUND;
}

/** The newest invoices and credit notes of an account; null: of all. Pure. */
function listInvoices(stream: readonly Placed[], account: string | null): InvoiceList {
  const names = new Map<number, string>();
  const creditedBy = new Map<number, string>();
  for (const { event } of stream) {
    if (!isBillingEvent(event)) continue;
    names.set(event.number, invoiceName(event));
    if (event.type === 'invoice.credited') creditedBy.set(event.invoice, invoiceName(event));
  }
  const rows = stream.flatMap(({ event, at, position }): InvoiceRow[] => {
    if (!isBillingEvent(event)) return [];
    if (account !== null && event.account !== account) return [];
    const { number, account: of, total_nanousd } = event;
    const base = {
      number,
      name: invoiceName(event),
      account: of,
      at: at.toISOString(),
      position,
      total_nanousd,
    };
    if (event.type === 'invoice.credited')
      return [
        {
          ...base,
          kind: 'credit_note',
          period: null,
          counterpart: names.get(event.invoice) ?? null,
          reason: event.reason,
        },
      ];
    // Those of the invoice that it corrects, too.
    const period = { from: event.from, to: event.to, end_user: event.end_user ?? null };
    return event.type === 'invoice.issued'
      ? [{ ...base, kind: 'invoice', period, counterpart: creditedBy.get(number) ?? null, reason: null }]
      : [
          {
            ...base,
            kind: 'correction_note',
            period,
            counterpart: names.get(event.invoice) ?? null,
            reason: null,
          },
        ];
  });
  const data = rows.toReversed().slice(0, INVOICES_LISTED_MAX);
  return { object: 'list', data, rows_omitted: rows.length - data.length };
}
