import { useMutation } from '@tanstack/react-query';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { FormProblem } from '../../ui/problem.tsx';

const RELEASED_AFTER_MS = 10_000;

/** Downloads the receipt of a request. Fetched first, so that errors are shown on the page. */
export function Receipt({ request }: { request: string }) {
  const fetched = useMutation({
    mutationFn: () => api<object>('GET', `/api/v1/requests/${encodeURIComponent(request)}/receipt`),
    onSuccess: (receipt) => save(`receipt-${request}.json`, `${JSON.stringify(receipt, null, 2)}\n`),
  });
  return (
    <div className="flex flex-wrap items-center gap-3">
      <Button icon="download" busy={fetched.isPending} onClick={() => fetched.mutate()}>
        Download receipt
      </Button>
      <div role="status">
        <FormProblem error={fetched.error} />
      </div>
    </div>
  );
}

function save(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = Object.assign(document.createElement('a'), { href: address, download: name });
  link.click();
  // Some browsers start reading only after the click.
  setTimeout(() => URL.revokeObjectURL(address), RELEASED_AFTER_MS);
}
