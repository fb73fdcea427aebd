import { z } from 'zod';
import { objectReply } from '#server/contract/parts.ts';
import {
  EmailsQuery,
  PutEmailSchedule,
  PutRecipients,
  SendStatement,
  SentStatement,
  type StatementEmailRow,
  StatementEmails,
} from '#server/contract/statements.ts';
import type { ClientBase } from 'pg';
import { parseMonth } from '#db/audit/replay/statement.ts';
import { readIssued } from '#server/control/billing-control.ts';
import {
  listRecipients,
  listStatementEmails,
  readEmailSchedule,
  sendStatementEmails,
  setEmailSchedule,
  setRecipients,
  type StatementEmail,
} from '#server/control/statement-emails.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, ANY_ROLE, type ApiRoute, route, scopeOfMember } from '#server/dashboard/gate.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { holderOf, withReadSlot } from '#server/read/api.ts';
import { readQuery } from '#server/read/query.ts';
import type { Source } from '#server/read/store.ts';

/** Ordinary tables, and no projection. */
const EMAILS: Source = { projection: 'directory', tables: [] };
const NOT_FOUND = new ApiError('not_found');

/** Statements by email: members read those of their account, administrators manage them. */
export function statementEmailRoutes({ reads, relay, control, config }: Dashboard): ApiRoute[] {
  const hasMailServer = config.SMTP_URL !== undefined && config.SMTP_FROM !== undefined;

  async function read(client: ClientBase, account: string): Promise<StatementEmails> {
    const { day, on_since: since } = await readEmailSchedule(client);
    return {
      object: 'statement_emails',
      schedule: { enabled: since !== null, day },
      has_mail_server: hasMailServer,
      recipients: await listRecipients(client, account),
      data: (await listStatementEmails(client, account)).map(rowOfEmail),
    };
  }

  return [
    route(
      'get',
      '/api/v1/statement-emails',
      'usage:read',
      ANY_ROLE,
      { query: EmailsQuery, reply: StatementEmails },
      async ({ request }, who) => {
        const query = readQuery(EmailsQuery, request.url);
        if (query instanceof ApiError) return query;
        const scope = scopeOfMember(who).account;
        const account = scope ?? query.account ?? who.ownAccount ?? '';
        if (query.account !== undefined && query.account !== account) return NOT_FOUND;
        const found = await withReadSlot(reads, holderOf(who), () =>
          reads.read(EMAILS, (client) => read(client, account)),
        );
        return found instanceof ApiError ? found : found.found;
      },
    ),

    route(
      'put',
      '/api/v1/statement-emails/schedule',
      'usage:write',
      ADMINISTRATORS,
      { body: PutEmailSchedule, reply: objectReply('schedule', { enabled: z.boolean(), day: z.number() }) },
      async ({ body }, { actor }) => {
        const set = await control.change(actor, (_control, client) =>
          setEmailSchedule(client, { isOn: body.enabled, day: body.day }),
        );
        return set instanceof ApiError
          ? set
          : { object: 'schedule', enabled: set.on_since !== null, day: set.day };
      },
    ),

    route(
      'put',
      '/api/v1/statement-emails/recipients',
      'usage:write',
      ADMINISTRATORS,
      { body: PutRecipients, reply: objectReply('recipients', { recipients: z.array(z.string()) }) },
      async ({ body: { account, recipients } }, { actor }) => {
        if (relay.readModel.account(account) === undefined) return NOT_FOUND;
        const set = await control.change(actor, (_control, client) =>
          setRecipients(client, account, recipients),
        );
        return set instanceof ApiError ? set : { object: 'recipients', recipients: set };
      },
    ),

    route(
      'post',
      '/api/v1/statement-emails',
      'usage:write',
      ADMINISTRATORS,
      { body: SendStatement, reply: SentStatement },
      async ({ body }, { actor }) => {
        const count = await control.change(actor, async (_control, client) => {
          if ('invoice' in body) {
            const { document } = await readIssued(client, body.invoice);
            return sendStatementEmails(client, document.account, { invoice: body.invoice });
          }
          const month = parseMonth(body.period);
          if (month === null || relay.readModel.account(body.account) === undefined)
            throw new DecisionError('not_found', 'There is no such account.');
          return sendStatementEmails(client, body.account, { month: { from: month.from, to: month.until } });
        });
        return count instanceof ApiError
          ? count
          : ({ object: 'statement_emails', count } satisfies SentStatement);
      },
    ),
  ];
}

const rowOfEmail = ({
  email,
  month,
  is_monthly: monthly,
  created_at: createdAt,
  ended_at: endedAt,
  invoice,
  state,
  attempts,
  status,
  fault,
}: StatementEmail): StatementEmailRow => ({
  recipient: email,
  period: month,
  invoice,
  monthly,
  state,
  created_at: createdAt.toISOString(),
  ended_at: endedAt?.toISOString() ?? null,
  attempts,
  status,
  fault,
});
