import type { LimitRow } from '#server/contract/limits.ts';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';

type Kind = { name: string; code: string; headers: string; todo: string; isOf: (row: LimitRow) => boolean };

const KINDS: readonly Kind[] = [
  {
    name: 'Rate limit',
    code: 'rate_limit_exceeded',
    headers: 'Retry-After, retry-after-ms and x-ratelimit-*.',
    todo: 'Retry after the given time. Most clients do so automatically.',
    isOf: ({ window }) => window === 'minute',
  },
  {
    name: 'Concurrency limit',
    code: 'rate_limit_exceeded',
    headers: 'Retry-After: 1 second.',
    todo: 'Send fewer requests in parallel.',
    isOf: ({ meter }) => meter === 'concurrent',
  },
  {
    name: 'Quota',
    code: 'insufficient_quota',
    headers: 'x-should-retry: false and x-quota-reset with the reset time.',
    todo: 'Wait for the reset or request a larger quota. Don’t retry.',
    isOf: ({ window }) => window !== 'minute' && window !== 'none',
  },
];

/** The responses returned when a limit is reached. */
export function RejectionsCard({ rows }: { rows: readonly LimitRow[] }) {
  return (
    <Card title="Rejection responses" flush>
      <Table
        label="Rejection responses"
        keyOf={({ name }) => name}
        rows={KINDS.filter(({ isOf }) => rows.some(isOf))}
        columns={COLUMNS}
      />
      <p className="border-t border-line px-4 py-3 text-muted">
        The status is always 429. The field <code className="font-mono text-xs">error.limit</code> contains
        the limit with its used, reserved and remaining amounts.
      </p>
    </Card>
  );
}

const COLUMNS: Column<Kind>[] = [
  { head: 'Limit', cell: ({ name }) => <span className="whitespace-nowrap">{name}</span> },
  {
    head: 'Code',
    cell: ({ code }) => <code className="font-mono text-xs whitespace-nowrap">429 {code}</code>,
  },
  { head: 'Headers', cell: ({ headers }) => headers },
  { head: 'Action', cell: ({ todo }) => todo },
];
