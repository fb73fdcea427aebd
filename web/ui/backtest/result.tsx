import type { ReactNode } from 'react';
import { limitTitle } from '#db/limits/titles.ts';
import { parseSubject, PER } from '#db/limits/subjects.ts';
import type { BacktestLine, BacktestReport, LimitHit, RejectedOf } from '#server/contract/backtest.ts';
import { useAccountNames, useKeyNames } from '../../lib/api/names.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { showCost, showCount, showCounted, showPercent, showShort, showTime } from '../../lib/format/show.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { Badge, Facts } from '../layout/parts.tsx';
import { type Column, Table } from '../layout/table.tsx';

/** What would have been different: calls, costs and limits. */
export function BacktestResult({ report }: { report: BacktestReport }) {
  const { calls, cost, accounts, keys, limits, lines } = report;
  const changed = lines.filter(({ before_nanousd: before, after_nanousd: after }) => before !== after);
  return (
    <div className="flex flex-col divide-y divide-line border-t border-line">
      <div className="flex flex-col gap-3 px-4 py-3">
        <p role="status" className="font-medium">
          {headline(report)}
        </p>
        <Facts
          facts={[
            ['Charges', <CostChange key="charges" before={cost.before_nanousd} after={cost.after_nanousd} />],
            [
              'Upstream cost',
              <CostChange
                key="upstream"
                before={cost.upstream_before_nanousd}
                after={cost.upstream_after_nanousd}
              />,
            ],
            ['Shorter replies', calls.shortened > 0 && showCount(calls.shortened)],
            ['Observed', calls.newly_observed > 0 && observedText(calls.newly_observed)],
            [
              'Admitted instead',
              calls.newly_admitted > 0 &&
                `${showCounted(calls.newly_admitted, 'rejected call')}, about ` +
                  `${showCost(cost.newly_admitted_nanousd)} by the cost of average calls`,
            ],
            ['Without a price', report.unpriced_after > 0 && showCounted(report.unpriced_after, 'call')],
          ]}
        />
      </div>
      {accounts.length > 0 && (
        <Section title="Rejected calls">
          <Table
            label="Rejected calls"
            columns={REJECTED}
            rows={accounts.flatMap((account) => [
              { ...account, isKey: false },
              ...keys.filter((key) => key.account === account.id).map((key) => ({ ...key, isKey: true })),
            ])}
            keyOf={({ id, isKey }) => `${id} ${isKey}`}
          />
        </Section>
      )}
      {limits.length > 0 && (
        <Section title="Limits hit">
          <Table
            label="Limits hit"
            columns={LIMITS}
            rows={limits}
            keyOf={({ subject, meter, window, enforcement }) =>
              `${subject} ${meter} ${window} ${enforcement}`
            }
          />
        </Section>
      )}
      {changed.length > 0 && (
        <Section title="Charges by account and model">
          <Table
            label="Charges by account and model"
            columns={COSTS}
            rows={changed}
            keyOf={({ account, model }) => `${account} ${model}`}
          />
        </Section>
      )}
      <p className="px-4 py-3 text-xs text-muted">
        The log doesn’t know how clients would have reacted: a rejected call might have been retried, or sent
        to another model.
        {calls.not_evaluated > 0 &&
          ` ${showCounted(calls.not_evaluated, 'rejected call')} can’t be decided again and stay rejected.`}
      </p>
    </div>
  );
}

function headline({ calls: { admitted, newly_rejected: rejected } }: BacktestReport): string {
  if (admitted === 0) return 'No calls in this period.';
  const of = `${showCount(rejected)} of ${showCounted(admitted, 'admitted call')}`;
  return rejected === 0
    ? `None of ${showCounted(admitted, 'admitted call')} would have been rejected.`
    : `${of} (${showPercent(rejected / admitted, 1)}) would have been rejected.`;
}

const observedText = (count: number): string =>
  `${showCounted(count, 'call')} would be recorded as rejected by observed limits, and admitted`;

/** Costs before and after, and the difference. */
function CostChange({ before, after }: { before: string; after: string }) {
  if (before === after) return <>{showCost(before)}, unchanged</>;
  return (
    <>
      <span className="whitespace-nowrap">
        {showCost(before)} → {showCost(after)}
      </span>{' '}
      <span className="whitespace-nowrap">({difference(before, after)})</span>
    </>
  );
}

/** "+$1.20, +12%" */
function difference(before: string, after: string): string {
  const [from, to] = [BigInt(before), BigInt(after)];
  const sign = to > from ? '+' : '−';
  const size = to > from ? to - from : from - to;
  const share = from === 0n ? '' : `, ${sign}${showPercent(Number(size) / Number(from))}`;
  return `${sign}${showCost(size)}${share}`;
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="py-2">
      <h4 className="px-4 pt-1 pb-1 font-medium">{title}</h4>
      {children}
    </div>
  );
}

/** The first and the last one. */
function Span({ first, last }: Pick<RejectedOf, 'first' | 'last'>) {
  const zone = useZone();
  const show = ({ at }: RejectedOf['first']): string => showTime(at, zone, 'day');
  const [from, to] = [show(first), show(last)];
  return <span title={`${first.at} – ${last.at}`}>{from === to ? from : `${from} – ${to}`}</span>;
}

const REJECTED: readonly Column<RejectedOf & { isKey: boolean }>[] = [
  {
    head: 'Account and key',
    cell: ({ name, id, isKey }) => (
      <span className={isKey ? 'pl-4 text-muted' : 'font-medium'}>{name ?? id}</span>
    ),
  },
  { head: 'Calls', align: 'right', cell: ({ rejected }) => showCount(rejected) },
  { head: 'First and last', cell: (row) => <Span {...row} />, isExtra: true },
];

const LIMITS: readonly Column<LimitHit>[] = [
  {
    head: 'Limit',
    cell: ({ meter, window, cap, enforcement }) => (
      <>
        {limitTitle({ meter, window })} {showAmount(meter, cap, showShort)}
        {enforcement === 'observe' && (
          <>
            {' '}
            <Badge>Observed</Badge>
          </>
        )}
      </>
    ),
  },
  { head: 'Of', cell: (hit) => <Holder hit={hit} /> },
  { head: 'Calls', align: 'right', cell: ({ rejected }) => showCount(rejected) },
  { head: 'First and last', cell: (row) => <Span {...row} />, isExtra: true },
];

/** Whose limit it is: an account or a key and, of limits that count apart, the number of subjects. */
function Holder({ hit: { subject, subjects } }: { hit: LimitHit }) {
  const accountName = useAccountNames();
  const keyName = useKeyNames();
  const { kind, account, key } = parseSubject(subject);
  const holder = key === null ? accountName(account ?? '') : keyName(key);
  if (kind === 'account' || kind === 'key') return <>{holder}</>;
  return (
    <>
      {holder}, {showCount(subjects)} {PER[kind].names[subjects === 1 ? 0 : 1]}
    </>
  );
}

const COSTS: readonly Column<BacktestLine>[] = [
  {
    head: 'Account, model',
    cell: ({ account, name, model }) =>
      account === '' ? (
        'Others'
      ) : (
        <>
          <p className="font-medium wrap-anywhere">{name}</p>
          <p className="font-mono text-xs wrap-anywhere text-muted">{model}</p>
        </>
      ),
  },
  { head: 'Calls', align: 'right', cell: ({ requests }) => showCount(requests), isExtra: true },
  { head: 'Before', align: 'right', cell: ({ before_nanousd: before }) => showCost(before) },
  {
    head: 'After',
    align: 'right',
    // The difference below it: a column of its own would not fit into a dialog.
    cell: ({ before_nanousd: before, after_nanousd: after }) => (
      <>
        <p>{showCost(after)}</p>
        <p className="text-xs whitespace-nowrap text-muted max-md:hidden">{difference(before, after)}</p>
      </>
    ),
  },
];
