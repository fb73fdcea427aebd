import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { METERS, type QuotaMeter } from '#db/limits/meters.ts';
import { limitTitle } from '#db/limits/titles.ts';
import type { Change } from '#server/contract/keys.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { adjustmentsKey } from '../../lib/api/adjustments.ts';
import { limitsQuery } from '../../lib/api/limits.ts';
import { newUuid } from '../../lib/api/uuid.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { capitalized, showCount } from '../../lib/format/show.ts';
import { Button } from '../button.tsx';
import { DialogActions } from '../dialog/dialog.tsx';
import { Choices } from '../form/choices.tsx';
import { SelectField, TextField } from '../form/field.tsx';
import { WordOptions } from '../form/options.tsx';
import { fieldError, FormProblem } from '../problem.tsx';
import { AmountField } from '../terms/amount-field.tsx';
import type { AdjustableQuota } from './quotas.ts';

export type AdjustUsageProps = {
  account: string;
  /** Not empty. */ quotas: readonly AdjustableQuota[];
  /** The key that is chosen at first. */ ofKey?: string | undefined;
  back: { label: string; go: () => void };
  onDone: (change: Change) => void;
};

const DIRECTIONS = [
  { value: 'give', label: 'Give units back', hint: 'Calls can use them again at once, on all servers.' },
  { value: 'add', label: 'Add units', hint: 'As if they had been used.' },
] as const;
const PLACEHOLDERS = { count: '5,000', nanousd: '1.25' } as const;
const REASON_MAX = 200;

/** Corrects the usage that an account's quotas count, in their current windows. */
export function AdjustUsage({ account, quotas, ofKey = '', back, onDone }: AdjustUsageProps) {
  const meters = [...new Set(quotas.map(({ meter }) => meter))];
  const [meter, setMeter] = useState(meters.includes('tokens') ? 'tokens' : (meters[0] ?? 'tokens'));
  const [direction, setDirection] = useState<'give' | 'add'>('give');
  const [units, setUnits] = useState<number>();
  const [window, setWindow] = useState('');
  const [key, setKey] = useState(ofKey);
  const [reason, setReason] = useState('');
  // The idempotency key: a retry after a lost response does not adjust twice.
  const [adjustment] = useState(newUuid);
  const ofMeter = quotas.filter((each) => each.meter === meter);
  const chosenKey = ofMeter.some((each) => each.key === key) ? key : '';
  const affected = ofMeter.filter(
    (each) => (each.key === null || each.key === chosenKey) && (window === '' || each.window === window),
  );
  const amount = (units ?? 0) * (direction === 'give' ? -1 : 1);
  const queries = useQueryClient();
  const post = useMutation({
    mutationFn: () =>
      api<Change>('POST', `/api/v1/accounts/${account}/adjustments`, {
        meter,
        amount,
        reason,
        adjustment,
        ...(window === '' ? {} : { window }),
        ...(chosenKey === '' ? {} : { key: chosenKey }),
      }),
    onSuccess: async (change) => {
      onDone(change);
      const changed = [limitsQuery(account).queryKey, adjustmentsKey(account)];
      await Promise.all(changed.map((queryKey) => queries.invalidateQueries({ queryKey })));
    },
  });
  const choose = (next: QuotaMeter): void => {
    setMeter(next);
    setWindow('');
    setUnits(undefined);
  };
  const send = (event: FormEvent): void => {
    event.preventDefault();
    post.mutate();
  };
  const { format } = METERS[meter];
  return (
    <form onSubmit={send} className="flex flex-col gap-5">
      <Choices legend="Adjustment" choices={DIRECTIONS} value={direction} onChange={setDirection} />
      <div className="grid gap-3 sm:grid-cols-2">
        <SelectField
          label="Metric"
          value={meter}
          onChange={({ target }) => choose(target.value as QuotaMeter)}
        >
          <WordOptions words={Object.fromEntries(meters.map((each) => [each, labelOf(each)]))} />
        </SelectField>
        <AmountField
          key={meter}
          label="Units"
          unit={format}
          value={units}
          onChange={setUnits}
          required
          placeholder={PLACEHOLDERS[format]}
          error={fieldError(post.error, 'amount')}
        />
        <Place quotas={ofMeter} window={window} onWindow={setWindow} keyId={chosenKey} onKey={setKey} />
      </div>
      <Effect quotas={affected} amount={amount} />
      <TextField
        label="Reason"
        value={reason}
        onChange={({ target }) => setReason(target.value)}
        required
        maxLength={REASON_MAX}
        autoComplete="off"
        hint="Recorded in the audit log. Members of the account can read it."
        error={fieldError(post.error, 'reason')}
      />
      <p className="text-xs text-muted">
        Changes what the quotas count. Usage reports and cost stay as recorded; statements list adjustments.
        To correct the charge of a request, open it.
      </p>
      {isDone(post.error) ? (
        <p role="alert" className="text-danger">
          This adjustment was made already.
        </p>
      ) : (
        <FormProblem error={post.error} fields={['amount', 'reason']} />
      )}
      <DialogActions>
        <Button onClick={back.go}>{back.label}</Button>
        <Button
          type="submit"
          look="primary"
          disabled={units === undefined || units === 0 || affected.length === 0}
          busy={post.isPending}
        >
          Adjust usage
        </Button>
      </DialogActions>
    </form>
  );
}

const isDone = (error: unknown): boolean => error instanceof ApiError && error.code === 'already_done';

const labelOf = (meter: QuotaMeter): string => {
  const { format, name } = METERS[meter];
  return `${capitalized(name)}${format === 'nanousd' ? ' (US dollars)' : ''}`;
};

/** Which quotas of a meter are adjusted: one window or all, and a key's too. */
function Place({
  quotas,
  window,
  onWindow,
  keyId,
  onKey,
}: {
  quotas: readonly AdjustableQuota[];
  window: string;
  onWindow: (window: string) => void;
  keyId: string;
  onKey: (key: string) => void;
}) {
  const titles = new Map(quotas.map((quota) => [quota.window, limitTitle(quota)]));
  const keys = new Map(quotas.flatMap(({ key, keyName }) => (key === null ? [] : [[key, keyName ?? key]])));
  return (
    <>
      <SelectField label="Quotas" value={window} onChange={({ target }) => onWindow(target.value)}>
        <WordOptions words={{ '': 'All windows', ...Object.fromEntries(titles) }} />
      </SelectField>
      {keys.size > 0 && (
        <SelectField
          label="Key"
          value={keyId}
          onChange={({ target }) => onKey(target.value)}
          hint="Calls of a key count in its quotas and in the account’s."
        >
          <WordOptions words={{ '': 'No key', ...Object.fromEntries(keys) }} />
        </SelectField>
      )}
    </>
  );
}

/** The usage of each affected quota, before and after. */
function Effect({ quotas, amount }: { quotas: readonly AdjustableQuota[]; amount: number }) {
  return (
    <ul className="flex min-h-10 flex-col gap-1.5 rounded-lg bg-sunken px-3 py-2" aria-label="Effect">
      {quotas.length === 0 && <li className="text-muted">No quota of this metric in its current window.</li>}
      {quotas.map(({ key, keyName, meter, window, limit, used }) => {
        const show = (value: number): string => showAmount(meter, value, showCount);
        const after = used + amount;
        return (
          <li key={`${key} ${window}`} className="flex flex-wrap justify-between gap-x-3">
            <span>
              {limitTitle({ meter, window })}
              {key !== null && <span className="text-muted"> · Key {keyName ?? ''}</span>}
            </span>
            <span>
              {show(used)}
              {amount !== 0 && (
                <>
                  {' → '}
                  <span className={after < 0 || after > limit ? 'font-medium text-danger' : 'font-medium'}>
                    {show(after)}
                  </span>
                </>
              )}
              <span className="text-muted"> of {show(limit)} used</span>
            </span>
          </li>
        );
      })}
    </ul>
  );
}
