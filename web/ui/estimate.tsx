import type { ReactNode } from 'react';
import type { UsageSource } from '#db/events/endings.ts';
import { showCost } from '../lib/format/show.ts';
import { correctedPart, type CostSum, estimatedShare, estimateOf } from '../lib/format/usage-source.ts';

/** A sign before a figure, with its words for screen readers. */
const Sign = ({ sign, words }: { sign: string; words: string }) => (
  <>
    <span aria-hidden="true" className="text-muted">
      {sign}{' '}
    </span>
    <span className="sr-only">{words}: </span>
  </>
);

/** A figure of one request, marked if its usage was not reported by the provider. */
export function Estimate({ source, children }: { source: UsageSource | null; children: ReactNode }) {
  const title = estimateOf(source);
  if (title === null) return children;
  return (
    <span title={title}>
      <Sign sign="≈" words="Estimated" />
      {children}
    </span>
  );
}

/** The cost of many requests, marked with the estimated share and with corrections. */
export function SumCost({ sum }: { sum: CostSum }) {
  const [estimated, corrected] = [estimatedShare(sum), correctedPart(sum)];
  const title = [estimated, corrected].filter((part) => part !== null).join(', ');
  return (
    <span {...(title === '' ? {} : { title })}>
      {estimated !== null && <Sign sign="≈" words="Estimated" />}
      {corrected !== null && <Sign sign="±" words="Corrected" />}
      {showCost(sum.cost_nanousd)}
    </span>
  );
}
