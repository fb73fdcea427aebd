import { queryOptions } from '@tanstack/react-query';
import type {
  InvoiceList,
  Issuer,
  StatementEmails,
  StatementReply,
  UnbilledCorrections,
} from '#server/contract/statements.ts';
import { api } from '../../lib/api/api.ts';

/** @param query of `GET /api/v1/statements`, encoded; null: not yet complete. */
export const statementQuery = (query: string | null) =>
  queryOptions({
    queryKey: ['statements', query],
    queryFn: ({ signal }) =>
      api<StatementReply>('GET', `/api/v1/statements${query ?? ''}`, undefined, signal),
    enabled: query !== null,
    retry: false,
  });

/** The visible invoices and credit notes. */
export const invoicesQuery = queryOptions({
  queryKey: ['invoices'],
  queryFn: ({ signal }) => api<InvoiceList>('GET', '/api/v1/invoices', undefined, signal),
});

/** Who issues invoices. */
export const issuerQuery = queryOptions({
  queryKey: ['issuer'],
  queryFn: ({ signal }) => api<Issuer>('GET', '/api/v1/issuer', undefined, signal),
});

/** The corrections of an invoice's calls that no document bills. */
export const correctionsQuery = (number: number) =>
  queryOptions({
    queryKey: ['corrections', number],
    queryFn: ({ signal }) =>
      api<UnbilledCorrections>('GET', `/api/v1/invoices/${number}/corrections`, undefined, signal),
    // Each correction of a call changes it.
    staleTime: 0,
  });

/** Recipients, schedule and newest emails of an account. */
export const emailsQuery = (account: string) =>
  queryOptions({
    queryKey: ['statement-emails', account],
    queryFn: ({ signal }) =>
      api<StatementEmails>('GET', `/api/v1/statement-emails?account=${account}`, undefined, signal),
  });
