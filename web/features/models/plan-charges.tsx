import { Link } from '@tanstack/react-router';
import { showCost, showCount } from '../../lib/format/show.ts';
import { showMarkup } from '../../ui/terms/summary.ts';
import { EXAMPLE, type PlanCharge } from './price-match.ts';

const WAYS: Record<PlanCharge['way'], (charge: PlanCharge) => string> = {
  sell: () => 'Sell price',
  markup: ({ markup }) => `Cost with mark-up of ${showMarkup(markup)}`,
  cost: () => 'Cost',
};

/** The cost of an example, and what the accounts of each plan are charged for it. */
export function PlanCharges({ cost, charges }: { cost: number | null; charges: readonly PlanCharge[] }) {
  return (
    <div className="rounded-lg bg-sunken px-3 py-2">
      <p>
        Example: {showCount(EXAMPLE.input)} input and {showCount(EXAMPLE.output)} output tokens{' '}
        {cost === null ? 'have no cost price' : `cost ${showCost(cost)}`}.
      </p>
      {charges.length > 0 && (
        <table className="mt-2 w-full">
          <caption className="sr-only">Charge by plan</caption>
          <thead className="sr-only">
            <tr>
              <th scope="col">Plan</th>
              <th scope="col">Charged by</th>
              <th scope="col">Charge</th>
            </tr>
          </thead>
          <tbody>
            {charges.map((charge) => (
              <tr key={charge.plan} className="border-t border-line">
                <th scope="row" className="py-1 pr-3 text-left font-medium break-words">
                  {charge.plan}
                </th>
                <td className="py-1 pr-3 text-muted">{WAYS[charge.way](charge)}</td>
                <td className="py-1 text-right">
                  {charge.example === null ? (
                    <span className="text-muted">No price set</span>
                  ) : (
                    showCost(charge.example)
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {charges.length > 0 && (
        <p className="mt-1 text-xs text-muted">
          Mark-ups are terms of{' '}
          <Link to="/admin/plans" className="underline hover:text-accent">
            plans
          </Link>
          ; a sell price takes their place. Accounts without a plan are charged the cost.
        </p>
      )}
    </div>
  );
}
