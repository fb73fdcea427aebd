import { type ReactNode, useEffect, useId, useRef } from 'react';
import { BACKTEST_DAYS } from '#server/contract/backtest-period.ts';
import { type BacktestChanges, BacktestFailure, useBacktest } from '../../lib/api/backtest.ts';
import { showPercent, showShort } from '../../lib/format/show.ts';
import { Button } from '../button.tsx';
import { FormProblem } from '../problem.tsx';
import { Ago } from '../when.tsx';
import { BacktestResult } from './result.tsx';

/**
 * Replays the calls of the last days under changes that aren't saved yet. Give it a new `key` with new
 * changes, since its result is of those that it began with.
 */
export function CheckMonth({
  changes,
  children,
}: {
  /** Null: they aren't complete. */
  changes: BacktestChanges | null;
  /** The choice of calls. */
  children?: ReactNode;
}) {
  const id = useId();
  const check = useBacktest();
  const section = useRef<HTMLElement>(null);
  const { state } = check;
  // The check is at the end of its dialog, and its result would be below the edge.
  useEffect(() => {
    if (state === 'reported') section.current?.scrollIntoView({ block: 'start' });
  }, [state]);
  return (
    <section ref={section} aria-labelledby={id} className="scroll-mt-4 rounded-lg border border-line">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 px-4 py-3">
        <div className="min-w-0">
          <h3 id={id} className="font-medium">
            Check against last month
          </h3>
          <p className="text-xs text-muted">
            {check.state === 'reported' ? (
              <>
                Replayed <Ago time={check.endedAt} />. Nothing was changed.
              </>
            ) : (
              `Replays the calls of the last ${BACKTEST_DAYS} days with these changes. Nothing is saved.`
            )}
          </p>
        </div>
        {check.state === 'running' ? (
          <Button onClick={check.cancel}>Cancel check</Button>
        ) : (
          <Button
            icon="clock"
            disabled={changes === null}
            onClick={() => changes && check.run(changes, check.state === 'reported')}
          >
            {check.state === 'reported' ? 'Check again' : 'Check'}
          </Button>
        )}
      </div>
      {children !== undefined && check.state !== 'running' && (
        <div className="px-4 pb-3 empty:hidden">{children}</div>
      )}
      {check.state === 'running' && (
        <div className="border-t border-line px-4 py-3">
          <Progress done={check.done} of={check.of} />
        </div>
      )}
      {check.state === 'failed' && (
        <div className="border-t border-line px-4 py-3">
          {check.error instanceof BacktestFailure ? (
            <p role="alert" className="text-danger">
              {check.error.message}
            </p>
          ) : (
            <FormProblem error={check.error} />
          )}
        </div>
      )}
      {check.state === 'reported' && <BacktestResult report={check.report} />}
    </section>
  );
}

function Progress({ done, of }: { done: number; of: number }) {
  const share = of === 0 ? 0 : Math.min(1, done / of);
  return (
    <div role="status" aria-label="Replaying calls" className="flex flex-col gap-1.5">
      <div className="h-2 overflow-hidden rounded-full bg-sunken">
        <div className="h-full bg-accent" style={{ width: `${share * 100}%` }} />
      </div>
      <p className="text-xs text-muted">
        {of === 0
          ? 'Reading terms and corrections'
          : `${showShort(done)} of ${showShort(of)} events, ${showPercent(share, 0)}`}
      </p>
    </div>
  );
}
