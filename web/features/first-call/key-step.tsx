import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { CreatedKey } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { isActive, keysQuery } from '../../lib/api/names.ts';
import { useMe } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { Secret } from '../../ui/dialog/secret.tsx';
import { ownKeysQuery } from './own-keys.ts';

type KeyStepProps = {
  secret: string | null;
  /** Null hides the secret. */ onSecret: (secret: string | null) => void;
};

/** Creates a key with one click. Its secret stays in this page's memory only. */
export function KeyStep({ secret, onSecret }: KeyStepProps) {
  const { account } = useMe();
  const queries = useQueryClient();
  const keys = useQuery(ownKeysQuery(account.id)).data?.filter(isActive);
  const create = useMutation({
    // The response contains the secret, so it must not reach the mutation cache.
    mutationFn: async () => {
      const created = await api<CreatedKey>('POST', '/api/v1/keys', {
        name: keys === undefined || keys.length === 0 ? 'first key' : `key ${keys.length + 1}`,
      });
      onSecret(created.secret);
      announceChange('Key created.', created);
      await queries.invalidateQueries({ queryKey: keysQuery.queryKey });
    },
  });
  if (secret !== null) {
    return (
      <div className="flex flex-col gap-3">
        <Secret secret={secret} what="secret" about="Store it in your password manager or secret store.">
          <Button onClick={() => onSecret(null)}>Hide secret</Button>
        </Secret>
      </div>
    );
  }
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-3">
      <Button look="primary" icon="key" busy={create.isPending} onClick={() => create.mutate()}>
        Create key
      </Button>
      <p className="min-w-0 flex-1 basis-64 text-muted">{aboutKeys(keys?.map(({ name }) => name))}</p>
      <FormProblem error={create.error} />
    </div>
  );
}

function aboutKeys(names: readonly string[] | undefined): string {
  if (names === undefined || names.length === 0)
    return 'Name, limits and expiry can be changed later under API keys.';
  const [first = ''] = names;
  const which = names.length === 1 ? `an active key, “${first}”` : `${names.length} active keys`;
  return `Your account has ${which}. Use its secret in the examples below, or create a new key.`;
}
