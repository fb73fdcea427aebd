import { queryOptions } from '@tanstack/react-query';
import type { InvoiceList, Issuer, StatementReply } from '#server/contract/statements.ts';
import { api } from '../../lib/api/api.ts';

/** @param query of `GET /api/statements`, encoded; null: not yet complete. */
export const statementQuery = (query: string | null) =>
  queryOptions({
    queryKey: ['statements', query],
    queryFn: ({ signal }) => api<StatementReply>('GET', `/api/statements${query ?? ''}`, undefined, signal),
    enabled: query !== null,
    retry: false,
  });

/** The visible invoices and credit notes. */
export const invoicesQuery = queryOptions({
  queryKey: ['invoices'],
  queryFn: ({ signal }) => api<InvoiceList>('GET', '/api/invoices', undefined, signal),
});

/** Who issues invoices. */
export const issuerQuery = queryOptions({
  queryKey: ['issuer'],
  queryFn: ({ signal }) => api<Issuer>('GET', '/api/issuer', undefined, signal),
});
