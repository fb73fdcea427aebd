import { Link } from '@tanstack/react-router';
import type { CheckResult } from '#server/contract/audit.ts';
import { showCount, showCounted, showDuration } from '../../lib/show.ts';
import { useMe } from '../../lib/session.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, type Tone } from '../../ui/parts.tsx';
import { Ago } from '../../ui/when.tsx';

const OUTCOMES: Record<CheckResult['outcome'], readonly [tone: Tone, words: string]> = {
  verified: ['good', 'as it should be'],
  mismatch: ['bad', 'not as it should be'],
  failed: ['warn', 'could not be checked'],
  timed_out: ['warn', 'took too long'],
  canceled: ['plain', 'cancelled'],
};

export function CheckOutcome({ check }: { check: CheckResult }) {
  const [tone, words] = OUTCOMES[check.outcome];
  return <Badge tone={tone}>{words}</Badge>;
}

/** What a check came to, with the places where something is wrong. */
export function CheckResult({
  check,
  memberName,
}: {
  check: CheckResult;
  memberName: (id: string) => string;
}) {
  const { member: me } = useMe();
  return (
    <div className="flex flex-col gap-2">
      <p className="flex flex-wrap items-baseline gap-x-2 gap-y-1">
        <CheckOutcome check={check} />
        <span className="min-w-0 break-words">{check.summary}</span>
      </p>
      {check.findings.length > 0 && (
        <ol className="flex flex-col gap-1 rounded-md bg-bad-soft px-3 py-2">
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
        <p className="text-muted">And {showCounted(check.findings_omitted, 'more')}.</p>
      )}
      <p className="text-xs text-muted">
        Begun <Ago time={check.started_at} /> by {check.member === me.id ? 'you' : memberName(check.member)},
        done in {showDuration(check.duration_ms)}
        {check.position > 0 && `, up to position ${showCount(check.position)}`}.
      </p>
    </div>
  );
}

/** How far a check is, and the way to end it. */
export function CheckRunning({ done, of, onCancel }: { done: number; of: number; onCancel: () => void }) {
  const share = of === 0 ? 0 : Math.min(1, done / of);
  return (
    <div className="flex flex-wrap items-center gap-3">
      <div className="min-w-40 flex-1">
        <div
          role="progressbar"
          aria-label="How far the check is"
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
