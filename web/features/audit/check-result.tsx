import { Link } from '@tanstack/react-router';
import type { CheckResult as Result } from '#server/contract/audit.ts';
import { showCount, showCounted, showDuration } from '../../lib/format/show.ts';
import { describeActor } from '../../lib/api/names.ts';
import { useMe } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, type Tone } from '../../ui/layout/parts.tsx';
import { Ago } from '../../ui/when.tsx';

const OUTCOMES: Record<Result['outcome'], readonly [tone: Tone, words: string]> = {
  verified: ['success', 'Verified'],
  mismatch: ['danger', 'Verification failed'],
  failed: ['warn', 'Check failed'],
  timed_out: ['warn', 'Timed out'],
  canceled: ['plain', 'Canceled'],
};

export function CheckOutcome({ check }: { check: Result }) {
  const [tone, words] = OUTCOMES[check.outcome];
  return <Badge tone={tone}>{words}</Badge>;
}

/** The result of a check with its findings. */
export function CheckResult({ check, memberName }: { check: Result; memberName: (id: string) => string }) {
  const { member: me } = useMe();
  return (
    <div className="flex flex-col gap-2">
      <p className="flex flex-wrap items-baseline gap-x-2 gap-y-1">
        <CheckOutcome check={check} />
        <span className="min-w-0 break-words">{check.summary}</span>
      </p>
      {check.findings.length > 0 && (
        <ol className="flex flex-col gap-1 rounded-md bg-danger-soft px-3 py-2">
          {check.findings.map(({ position, where, problem }, index) => (
            <li key={index} className="min-w-0 wrap-anywhere">
              {position !== null && (
                <>
                  <Link to="/audit" search={{ at: position }} className="underline hover:text-accent">
                    Position {showCount(position)}
                  </Link>
                  {': '}
                </>
              )}
              <code className="font-mono text-xs">{where}</code> {problem}
            </li>
          ))}
        </ol>
      )}
      {check.findings_omitted > 0 && (
        <p className="text-muted">{showCount(check.findings_omitted)} more findings.</p>
      )}
      <p className="text-xs text-muted">
        Started <Ago time={check.started_at} />
        {` by ${check.actor === `member/${me.id}` ? 'you' : describeActor(check.actor, memberName)}`}
        {`, took ${showDuration(check.duration_ms)}`}
        {check.position > 0 && `, checked up to position ${showCount(check.position)}`}.
      </p>
    </div>
  );
}

/** The progress of a check, with a cancel button. */
export function CheckRunning({ done, of, onCancel }: { done: number; of: number; onCancel: () => void }) {
  const share = of === 0 ? 0 : Math.min(1, done / of);
  return (
    <div className="flex flex-wrap items-center gap-3">
      <div className="min-w-40 flex-1">
        <div
          role="progressbar"
          aria-label="Check progress"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.floor(share * 100)}
          className="h-2 overflow-hidden rounded-full bg-sunken"
        >
          <div className="h-full bg-accent" style={{ width: `${share * 100}%` }} />
        </div>
        <p className="mt-1 text-xs text-muted">
          {showCount(Math.min(done, of))} of {showCounted(of, 'event')}
        </p>
      </div>
      <Button onClick={onCancel}>Cancel</Button>
    </div>
  );
}
