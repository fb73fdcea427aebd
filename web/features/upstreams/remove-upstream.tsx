import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api/api.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { listed } from './routing-words.ts';
import { dispatchQuery, upstreamsQuery } from './upstream-queries.ts';
import { showCounted } from '../../lib/format/show.ts';

/** Removes an upstream permanently, after listing the affected models. */
export function RemoveUpstream({
  row: { name, terms, credentials },
  models,
  onClose,
}: {
  row: UpstreamRow;
  models: readonly ModelRoute[];
  onClose: () => void;
}) {
  const affected = models.flatMap(({ model, terms: each }) =>
    'targets' in each && each.targets.some(({ upstream }) => upstream === name)
      ? [{ model, isAll: each.targets.every(({ upstream }) => upstream === name) }]
      : [],
  );
  const blocking = affected.filter(({ isAll }) => isAll).map(({ model }) => `“${model}”`);
  const others = affected.filter(({ isAll }) => !isAll).map(({ model }) => `“${model}”`);
  const credentialCount = credentials.filter(({ source }) => source === 'log').length;
  const remove = useChange(() => api<Change>('DELETE', `/api/v1/upstreams/${name}`), {
    done: `Upstream ${name} removed.`,
    invalidates: [upstreamsQuery.queryKey, dispatchQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={`Remove upstream ${name}?`}>
      <div className="flex flex-col gap-3">
        <p>
          No more requests are sent to this upstream. Running requests finish.
          {credentialCount > 0 &&
            ` Deletes ${showCounted(credentialCount, 'credential')}. Also revoke them at the provider.`}
        </p>
        {blocking.length > 0 && (
          <p className="rounded-lg border border-warn bg-warn-soft px-3 py-2.5 text-warn">
            It is the only target of {listed(blocking)}. Edit or retire{' '}
            {blocking.length === 1 ? 'that model' : 'those models'} first.
          </p>
        )}
        {others.length > 0 && (
          <p>
            {listed(others)} {others.length === 1 ? 'loses' : 'lose'} this target and{' '}
            {others.length === 1 ? 'uses' : 'use'} the remaining ones.
          </p>
        )}
        {terms.models.length > 0 && (
          <p>
            Its models (<code className="font-mono text-xs">{terms.models.join(', ')}</code>) go to another
            upstream that lists them, or are rejected with 404{' '}
            <code className="font-mono text-xs">model_not_found</code>.
          </p>
        )}
        <FormProblem error={remove.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="danger"
          disabled={blocking.length > 0}
          busy={remove.isPending}
          onClick={() => remove.mutate()}
        >
          Remove upstream
        </Button>
      </DialogActions>
    </Dialog>
  );
}
