import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api.ts';
import { modelsQuery } from '../../lib/models-query.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { listedBy } from './target-words.ts';
import { dispatchQuery } from './upstream-queries.ts';

/** Takes a model's directions away, after it was said where its calls go then. */
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
  const retire = useChange(() => api<Change>('POST', '/api/dispatch/retire', { model }), {
    done: `Model ${model} retired.`,
    altered: [dispatchQuery.queryKey, modelsQuery.queryKey],
    onDone: onClose,
  });
  return (
    <Dialog onClose={onClose} title={<>Retire model {model}?</>}>
      <div className="flex flex-col gap-3">
        {next === null ? (
          <p>
            No upstream serves it by name, so its calls are refused with 404{' '}
            <code className="font-mono text-xs">model_not_found</code> from then on.
          </p>
        ) : (
          <p>
            Its calls then go to <strong className="font-semibold">{next}</strong>, which serves this name by
            itself.
          </p>
        )}
        <p className="text-muted">It can be defined again at any time.</p>
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
