import { limitTitle } from '#db/limits/titles.ts';
import type { Statement, StatementAdjustment, StatementLine } from '#db/statement/document.ts';
import type { StatementReply } from '#server/contract/statements.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { showCost, showCount, showCounted } from '../../lib/format/show.ts';
import { Copyable } from '../../ui/copy.tsx';
import { Badge, Empty, Facts, Figure } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';

/** Lines on the page; the downloads have all. */
const LINES_SHOWN = 200;

const KINDS = {
  priced: 'Usage',
  abandoned: 'Abandoned requests, estimated',
  unpriced: 'Requests without a price',
  correction: 'Correction',
} as const;

const FIGURES = [
  'grid grid-cols-1 divide-line rounded-lg border border-line',
  'max-sm:divide-y sm:grid-cols-3 sm:divide-x',
].join(' ');

/** A statement with its totals, lines and balance. */
export function StatementView({ statement }: { statement: StatementReply }) {
  const { totals, lines, is_final: isFinal, digest } = statement;
  return (
    <div className="flex flex-col gap-4">
      <div className={FIGURES}>
        <Figure
          label="Charged"
          value={showCost(totals.cost_nanousd)}
          note={
            totals.estimated > 0
              ? `${showCost(totals.estimated_nanousd)} estimated`
              : `${totals.amount} ${totals.currency}`
          }
        />
        <Figure
          label="Requests"
          value={showCount(totals.requests)}
          note={`${showCount(totals.rejected)} rejected, not charged`}
        />
        <Figure
          label="Status"
          value={isFinal ? 'Final' : 'Not final'}
          note={isFinal ? 'The period is over' : 'The period isn’t over'}
        />
      </div>
      <div className="rounded-lg border border-line">
        <Table
          label="Lines"
          rows={lines.slice(0, LINES_SHOWN)}
          keyOf={({ first_position: first, kind }) => `${kind} ${first}`}
          columns={COLUMNS}
          empty={<Empty icon="invoice" title="No charges in this period" />}
        />
        {lines.length > LINES_SHOWN && (
          <p className="border-t border-line px-4 py-2 text-xs text-muted">
            {showCounted(lines.length - LINES_SHOWN, 'more line')}: download the CSV.
          </p>
        )}
      </div>
      <Balance statement={statement} />
      <Facts
        facts={[
          [
            'Billed by credit notes',
            totals.credited_nanousd !== '0' && `${showCost(totals.credited_nanousd)} of these corrections`,
          ],
          ['Amount due', `${totals.amount} ${totals.currency}`],
          ['Issued by', statement.issuer?.name ?? 'No issuer set'],
          ['Digest', <Copyable key="digest" text={digest} what="digest" />],
        ]}
      />
    </div>
  );
}

const COLUMNS: readonly Column<StatementLine>[] = [
  {
    head: 'Description',
    cell: (line) => (
      <>
        <p className="font-medium wrap-anywhere">{line.model}</p>
        <p className="text-xs wrap-anywhere text-muted">{detailOf(line)}</p>
      </>
    ),
  },
  { head: 'Requests', align: 'right', cell: (line) => showCount(line.requests + line.corrections) },
  { head: 'Input tokens', align: 'right', isExtra: true, cell: (line) => showCount(line.input_tokens) },
  { head: 'Output tokens', align: 'right', isExtra: true, cell: (line) => showCount(line.output_tokens) },
  { head: 'Charge', align: 'right', cell: (line) => showCost(line.cost_nanousd) },
];

function detailOf({ kind, day, key, key_name: name, end_user: endUser, reference, reason }: StatementLine) {
  return [
    KINDS[kind],
    day,
    name ?? key,
    endUser === '' ? 'no end user' : endUser,
    reference === undefined ? undefined : `${reference}: ${reason ?? ''}`,
  ]
    .filter((part) => part !== undefined)
    .join(' · ');
}

/** The prepaid balance, with top-ups and adjustments. */
function Balance({ statement: { balance, top_ups: topUps, adjustments } }: { statement: Statement }) {
  if (balance === null && topUps.length === 0 && adjustments.length === 0) return null;
  return (
    <section aria-labelledby="balance" className="flex flex-col gap-2">
      <h3 id="balance" className="font-semibold">
        {balance === null ? 'Top-ups and adjustments' : 'Balance'}
      </h3>
      {balance !== null && (
        <Facts
          facts={[
            ['Opening', showCost(balance.opening_nanousd)],
            ['Top-ups', showCost(balance.top_ups_nanousd)],
            ['Charges', showCost(-BigInt(balance.charges_nanousd))],
            ['Adjustments', showCost(balance.adjustments_nanousd)],
            ['Closing', <strong key="closing">{showCost(balance.closing_nanousd)}</strong>],
          ]}
        />
      )}
      <ul className="flex flex-col gap-1">
        {topUps.map(({ position, at, amount_nanousd: amount, reference }) => (
          <li key={position} className="wrap-anywhere">
            <Badge tone="success">Top-up</Badge> {showCost(amount)} on {at.slice(0, 10)}: {reference}
          </li>
        ))}
        {adjustments.map((each) => (
          <li key={each.position} className="wrap-anywhere">
            <Badge>Adjustment</Badge> {adjustmentLine(each)}: {each.reason}
          </li>
        ))}
      </ul>
    </section>
  );
}

const adjustmentLine = ({ at, amount, meter, window }: StatementAdjustment): string =>
  `${limitTitle({ meter, window })}, ${showAmount(meter, amount, showCount)} on ${at.slice(0, 10)}`;
