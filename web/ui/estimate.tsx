import type { ReactNode } from 'react';
import type { UsageSource } from '#db/events/endings.ts';
import { showCost } from '../lib/format/show.ts';
import { type EstimatedPart, estimatedShare, estimateOf } from '../lib/format/usage-source.ts';

/** A figure, marked if it is an estimate. */
function Marked({ title, children }: { title: string | null; children: ReactNode }) {
  if (title === null) return children;
  return (
    <span title={title}>
      <span aria-hidden="true" className="text-muted">
        ≈{' '}
      </span>
      <span className="sr-only">Estimated: </span>
      {children}
    </span>
  );
}

/** A figure of one request, marked if its usage was not reported by the provider. */
export const Estimate = ({ source, children }: { source: UsageSource | null; children: ReactNode }) => (
  <Marked title={estimateOf(source)}>{children}</Marked>
);

/** The cost of many requests, marked with the estimated share. */
export const SumCost = ({ sum }: { sum: EstimatedPart }) => (
  <Marked title={estimatedShare(sum)}>{showCost(sum.cost_nanousd)}</Marked>
);
