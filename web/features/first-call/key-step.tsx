import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { CreatedKey } from '#server/contract/keys.ts';
import { api } from '../../lib/api.ts';
import { isActive } from '../../lib/good-key.ts';
import { keysQuery } from '../../lib/names.ts';
import { useMe } from '../../lib/session.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { Secret } from '../../ui/secret.tsx';
import { ownKeysQuery } from './own-keys.ts';

type KeyStepProps = {
  secret: string | null;
  /** Null: it is not to be seen any more. */ onSecret: (secret: string | null) => void;
};

/** A key in one press. Its secret is here alone, until the page is left. */
export function KeyStep({ secret, onSecret }: KeyStepProps) {
  const { account } = useMe();
  const queries = useQueryClient();
  const keys = useQuery(ownKeysQuery(account.id)).data?.filter(isActive);
  const create = useMutation({
    // The reply holds the secret, so nothing of it goes where replies are kept.
    mutationFn: async () => {
      const made = await api<CreatedKey>('POST', '/api/keys', {
        name: keys === undefined || keys.length === 0 ? 'first key' : `key ${keys.length + 1}`,
      });
      onSecret(made.secret);
      announceChange('The key is made.', made);
      await queries.invalidateQueries({ queryKey: keysQuery.queryKey });
    },
  });
  if (secret !== null) {
    return (
      <div className="flex flex-col gap-3">
        <Secret
          secret={secret}
          what="secret"
          about="Copy the secret to where you keep such things. It is gone when you leave this page."
        >
          <Button onClick={() => onSecret(null)}>Hide it for good</Button>
        </Secret>
      </div>
    );
  }
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-3">
      <Button look="primary" icon="key" busy={create.isPending} onClick={() => create.mutate()}>
        Create a key
      </Button>
      <p className="min-w-0 flex-1 basis-64 text-muted">{aboutKeys(keys?.map(({ name }) => name))}</p>
      <FormProblem error={create.error} />
    </div>
  );
}

function aboutKeys(names: readonly string[] | undefined): string {
  if (names === undefined || names.length === 0)
    return 'One press: no name, limits or expiry to think about. All that can be set later, under API keys.';
  const [first = ''] = names;
  const which = names.length === 1 ? `a key already, "${first}"` : `${names.length} keys already`;
  return `Your account has ${which}. Secrets are shown once; if you have kept one, use it in place of the placeholder below. Otherwise make another key.`;
}
