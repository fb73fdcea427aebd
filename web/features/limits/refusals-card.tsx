import type { LimitRow } from '#server/contract/limits.ts';
import { Card } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';

type Kind = { name: string; code: string; says: string; todo: string; isOf: (row: LimitRow) => boolean };

const KINDS: readonly Kind[] = [
  {
    name: 'A rate',
    code: 'rate_limit_exceeded',
    says: 'Retry-After and retry-after-ms: the rest of the minute. x-ratelimit-* tell how much is left.',
    todo: 'Wait as long as it says. Most clients do by themselves.',
    isOf: ({ window }) => window === 'minute',
  },
  {
    name: 'Too many at the same time',
    code: 'rate_limit_exceeded',
    says: 'How many run, and how many may. Retry-After: a second.',
    todo: 'Wait for one to end, or send fewer at once.',
    isOf: ({ meter }) => meter === 'concurrent',
  },
  {
    name: 'A quota',
    code: 'insufficient_quota',
    says: 'x-should-retry: false, and x-quota-reset with the time when it begins anew.',
    todo: 'Wait for the next window, or ask for a larger quota. Trying again does not help.',
    isOf: ({ window }) => window !== 'minute' && window !== 'none',
  },
];

/** What a call is told that is refused by one of these limits. */
export function RefusalsCard({ rows }: { rows: readonly LimitRow[] }) {
  return (
    <Card title="What a refused call is told" flush>
      <Table
        label="Refusals"
        keyOf={({ name }) => name}
        rows={KINDS.filter(({ isOf }) => rows.some(isOf))}
        columns={COLUMNS}
      />
      <p className="border-t border-line px-4 py-3 text-muted">
        Every such reply has the status 429 and, in <code className="font-mono text-xs">error.limit</code>,
        the limit with what is used, held and free.
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
  { head: 'Headers', cell: ({ says }) => says },
  { head: 'What to do', cell: ({ todo }) => todo },
];
