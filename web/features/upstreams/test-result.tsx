import type { CredentialTestResult, UpstreamTestResult } from '#server/contract/upstreams.ts';
import { showCounted, showDuration } from '../../lib/format/show.ts';
import { Icon, type IconName } from '../../ui/icon.tsx';

const LOOKS: Record<CredentialTestResult['outcome'], { icon: IconName; look: string }> = {
  valid: { icon: 'check', look: 'border-line text-success' },
  unknown: { icon: 'warning', look: 'border-warn bg-warn-soft text-warn' },
  invalid: { icon: 'warning', look: 'border-danger bg-danger-soft text-danger' },
};

/** The test result per credential. */
export function TestResult({ isRunning, tested }: { isRunning: boolean; tested: UpstreamTestResult | null }) {
  return (
    <div aria-live="polite" className="flex flex-col gap-2 empty:hidden">
      {isRunning && <p className="text-muted">Listing models…</p>}
      {!isRunning && tested?.data.map((each) => <Outcome key={each.credential ?? ''} tested={each} />)}
    </div>
  );
}

function Outcome({
  tested: { label, outcome, models, duration_ms: tookMs, error: problem },
}: {
  tested: CredentialTestResult;
}) {
  const { icon, look } = LOOKS[outcome];
  return (
    <div className={`flex gap-2.5 rounded-lg border px-3 py-2 ${look}`}>
      <Icon name={icon} className="mt-0.5" />
      <p className="min-w-0 break-words">
        {label !== '' && <strong className="font-semibold">{label}: </strong>}
        {problem ?? `Connected. ${showCounted(models ?? 0, 'model')} available.`}{' '}
        <span className="whitespace-nowrap text-muted">{tookMs > 0 && showDuration(tookMs)}</span>
      </p>
    </div>
  );
}
