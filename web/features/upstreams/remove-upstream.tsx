import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api.ts';
import { modelsQuery } from '../../lib/models-query.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { listed } from './target-words.ts';
import { dispatchQuery, upstreamsQuery } from './upstream-queries.ts';

/** Removes an upstream for good, after it was said what that takes away. */
export function RemoveUpstream({
  row: { name, terms, credentials },
  models,
  onClose,
}: {
  row: UpstreamRow;
  models: readonly ModelRoute[];
  onClose: () => void;
}) {
  const going = models.flatMap(({ model, terms: each }) =>
    'targets' in each && each.targets.some(({ upstream }) => upstream === name)
      ? [{ model, isAll: each.targets.every(({ upstream }) => upstream === name) }]
      : [],
  );
  const stranded = going.filter(({ isAll }) => isAll).map(({ model }) => `“${model}”`);
  const others = going.filter(({ isAll }) => !isAll).map(({ model }) => `“${model}”`);
  const sealed = credentials.filter(({ source }) => source === 'log').length;
  const remove = useChange(() => api<Change>('DELETE', `/api/upstreams/${name}`), {
    done: `Upstream ${name} removed.`,
    altered: [upstreamsQuery.queryKey, dispatchQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Remove upstream ${name}?`}>
      <div className="flex flex-col gap-3">
        <p>
          Nothing more is sent there; running calls end as they would.
          {sealed > 0 &&
            ` Its ${sealed === 1 ? 'credential is' : `${sealed} credentials are`} erased for good: withdraw ${sealed === 1 ? 'it' : 'them'} at the provider, too.`}
        </p>
        {stranded.length > 0 && (
          <p className="rounded-lg border border-warn bg-warn-soft px-3 py-2.5 text-warn">
            It is all that {listed(stranded)} can go to. Direct or retire{' '}
            {stranded.length === 1 ? 'that model' : 'those models'} first; until then it can’t be removed.
          </p>
        )}
        {others.length > 0 && (
          <p>
            {listed(others)} {others.length === 1 ? 'loses' : 'lose'} a target, and{' '}
            {others.length === 1 ? 'goes' : 'go'} to {others.length === 1 ? 'its' : 'their'} others alone.
          </p>
        )}
        {terms.models.length > 0 && (
          <p>
            What it serves by name (<code className="font-mono text-xs">{terms.models.join(', ')}</code>) goes
            to another upstream that lists it, or else is refused with 404{' '}
            <code className="font-mono text-xs">model_not_found</code>.
          </p>
        )}
        <FormProblem error={remove.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="danger"
          disabled={stranded.length > 0}
          busy={remove.isPending}
          onClick={() => remove.mutate()}
        >
          Remove upstream
        </Button>
      </DialogActions>
    </Dialog>
  );
}
