import type { KeyTerms } from '#db/events/events.ts';
import type { RateField } from '#db/limits/limits.ts';
import { Checkbox } from '../form/field.tsx';

const LABELS: Record<RateField, string> = {
  requests_per_minute: 'Observe requests per minute',
  tokens_per_minute: 'Observe tokens per minute',
  concurrent_requests: 'Observe concurrent requests',
};

const RATE_FIELDS = Object.keys(LABELS) as RateField[];

/** Choice of the rate limits that reject nothing, and only record the calls that would have been rejected. */
export function ObservedRates({
  terms: { observe = [], ...terms },
  onChange,
}: {
  terms: Pick<KeyTerms, RateField | 'observe'>;
  onChange: (observe: RateField[] | undefined) => void;
}) {
  const set = RATE_FIELDS.filter((field) => terms[field] !== undefined || observe.includes(field));
  if (set.length === 0) return null;
  return (
    <div className="mt-3 grid gap-1.5">
      {set.map((field) => (
        <Checkbox
          key={field}
          label={LABELS[field]}
          checked={observe.includes(field)}
          onChange={({ target }) => {
            const next = RATE_FIELDS.filter((each) =>
              each === field ? target.checked : observe.includes(each),
            );
            onChange(next.length === 0 ? undefined : next);
          }}
        />
      ))}
      <p className="text-xs text-muted">
        An observed limit rejects nothing: the calls that would have been rejected are recorded.
      </p>
    </div>
  );
}
