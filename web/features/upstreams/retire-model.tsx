import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api/api.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { listedBy } from './routing-words.ts';
import { dispatchQuery } from './upstream-queries.ts';

/** Retires a custom model, after showing where its requests go instead. */
export function RetireModel({
  model: { model },
  upstreams,
  onClose,
}: {
  model: ModelRoute;
  upstreams: readonly UpstreamRow[];
  onClose: () => void;
}) {
  const next = listedBy(model, upstreams);
  const retire = useChange(() => api<Change>('POST', '/api/v1/dispatch/retire', { model }), {
    done: `Model ${model} retired.`,
    invalidates: [dispatchQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={<>Retire model {model}?</>}>
      <div className="flex flex-col gap-3">
        {next === null ? (
          <p>
            No upstream lists this model. Its requests are rejected with 404{' '}
            <code className="font-mono text-xs">model_not_found</code>.
          </p>
        ) : (
          <p>
            Its requests go to <strong className="font-semibold">{next}</strong>, which lists this model.
          </p>
        )}
        <p className="text-muted">You can add it again at any time.</p>
        <FormProblem error={retire.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={retire.isPending} onClick={() => retire.mutate()}>
          Retire model
        </Button>
      </DialogActions>
    </Dialog>
  );
}
