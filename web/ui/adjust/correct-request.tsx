import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { RequestDetail } from '#server/contract/requests.ts';
import { api, ApiError } from '../../lib/api/api.ts';
import { newUuid } from '../../lib/api/uuid.ts';
import { showCost, showCount } from '../../lib/format/show.ts';
import { Button } from '../button.tsx';
import { DialogActions } from '../dialog/dialog.tsx';
import { TextField } from '../form/field.tsx';
import { fieldError, FormProblem } from '../problem.tsx';
import { AmountField } from '../terms/amount-field.tsx';

type Figure =
  | 'cost_nanousd'
  | 'upstream_cost_nanousd'
  | 'input_tokens'
  | 'cache_read_tokens'
  | 'cache_write_tokens'
  | 'output_tokens'
  | 'reasoning_tokens'
  | 'hold_tokens';
const LABELS: Record<Figure, string> = {
  cost_nanousd: 'Charge (US dollars)',
  upstream_cost_nanousd: 'Upstream cost (US dollars)',
  input_tokens: 'Input tokens',
  cache_read_tokens: 'Cached tokens',
  cache_write_tokens: 'Cache write tokens',
  output_tokens: 'Output tokens',
  reasoning_tokens: 'Reasoning tokens',
  hold_tokens: 'Charged tokens',
};
const COSTS = ['cost_nanousd', 'upstream_cost_nanousd'] as const;
const OF_USAGE = [
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
] as const;
const TEXT_MAX = { reason: 200, reference: 128 };

type CorrectRequestProps = {
  detail: RequestDetail;
  back: () => void;
  onDone: (change: Change) => void;
};

/** Corrects the charge, the cost and the tokens of an ended request. */
export function CorrectRequest({ detail, back, onDone }: CorrectRequestProps) {
  const figures: readonly Figure[] = [
    ...COSTS,
    ...(detail.input_tokens === null ? ['hold_tokens' as const] : OF_USAGE),
  ];
  const now = (figure: Figure): number => detail.corrected?.[figure] ?? detail[figure] ?? 0;
  const [typed, setTyped] = useState<{ [F in Figure]?: number | undefined }>(() =>
    Object.fromEntries(figures.map((figure) => [figure, now(figure)])),
  );
  const [reason, setReason] = useState('');
  const [reference, setReference] = useState('');
  // A retry after a lost response does not correct twice.
  const [adjustment] = useState(newUuid);
  const deltas = figures.flatMap((figure) => {
    const amount = (typed[figure] ?? 0) - now(figure);
    return typed[figure] === undefined || amount === 0 ? [] : [[figure, amount] as const];
  });
  const isComplete = figures.every((figure) => typed[figure] !== undefined);
  const queries = useQueryClient();
  const post = useMutation({
    mutationFn: () =>
      api<Change>('POST', `/api/v1/requests/${detail.request}/corrections`, {
        // Without it the upstream cost would change as the charge does.
        upstream_cost_nanousd: 0,
        ...Object.fromEntries(deltas),
        reason,
        reference: reference.trim() === '' ? `adjustment:${adjustment}` : reference.trim(),
      }),
    onSuccess: async (change) => {
      onDone(change);
      await Promise.all(
        [['request'], ['requests']].map((queryKey) => queries.invalidateQueries({ queryKey })),
      );
    },
  });
  const send = (event: FormEvent): void => {
    event.preventDefault();
    post.mutate();
  };
  return (
    <form onSubmit={send} className="flex flex-col gap-5">
      <p className="text-muted">
        Enter the correct figures. The difference is recorded as a correction and counts from now on; figures
        of ended periods stay as they are.
      </p>
      <div className="grid gap-3 sm:grid-cols-2">
        {figures.map((figure) => {
          const isCost = figure.endsWith('_nanousd');
          return (
            <AmountField
              key={figure}
              label={LABELS[figure]}
              unit={isCost ? 'nanousd' : 'count'}
              value={typed[figure]}
              onChange={(value) => setTyped({ ...typed, [figure]: value })}
              required
              hint={`Now ${isCost ? showCost(now(figure)) : showCount(now(figure))}`}
              error={fieldError(post.error, figure)}
            />
          );
        })}
      </div>
      <TextField
        label="Reason"
        value={reason}
        onChange={({ target }) => setReason(target.value)}
        required
        maxLength={TEXT_MAX.reason}
        autoComplete="off"
        hint="Recorded in the audit log. Members of the account can read it."
        error={fieldError(post.error, 'reason')}
      />
      <TextField
        label="Reference"
        value={reference}
        onChange={({ target }) => setReference(target.value)}
        maxLength={TEXT_MAX.reference}
        autoComplete="off"
        placeholder="Optional"
        hint="Such as a bill’s number. Each reference corrects a request once."
        error={fieldError(post.error, 'reference')}
      />
      <p className="text-xs text-muted">
        Quotas whose window is still current and prepaid balances change at once. The original figures stay in
        the log.
      </p>
      {post.error instanceof ApiError && post.error.code === 'already_done' ? (
        <p role="alert" className="text-danger">
          {post.error.message}
        </p>
      ) : (
        <FormProblem error={post.error} fields={['reason', 'reference', ...figures]} />
      )}
      <DialogActions>
        <Button onClick={back}>Back</Button>
        <Button
          type="submit"
          look="primary"
          disabled={!isComplete || deltas.length === 0}
          busy={post.isPending}
        >
          Correct request
        </Button>
      </DialogActions>
    </form>
  );
}
