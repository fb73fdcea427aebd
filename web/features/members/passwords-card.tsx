import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { PasswordPolicy } from '#server/contract/members.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { type Choice, Choices } from '../../ui/form/choices.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useMemberChange } from './member-mutations.ts';
import { providersQuery, signInQuery } from './queries.ts';

const POLICIES: readonly Choice<PasswordPolicy>[] = [
  {
    value: 'everyone',
    label: 'Everyone',
    hint: 'Members who have signed in through an identity provider keep using it.',
  },
  {
    value: 'administrators',
    label: 'Administrators only',
    hint: 'Other members need an identity provider. Administrators keep their passwords for emergencies.',
  },
];

/** Who may sign in with a password. */
export function PasswordsCard({ canChange }: { canChange: boolean }) {
  const settings = useQuery(signInQuery);
  return (
    <Card title="Password sign-in">
      <Loaded query={settings} title="Couldn’t load the sign-in settings" height="h-32">
        {({ passwords }) =>
          canChange ? (
            <PasswordsForm key={passwords} shown={passwords} />
          ) : (
            <p>{POLICIES.find(({ value }) => value === passwords)?.label}</p>
          )
        }
      </Loaded>
    </Card>
  );
}

function PasswordsForm({ shown }: { shown: PasswordPolicy }) {
  const [passwords, setPasswords] = useState(shown);
  const { data: providers } = useQuery(providersQuery);
  const change = useMemberChange(
    () => api<Change>('PUT', '/api/v1/sign-in-settings', { passwords }),
    'Sign-in settings saved.',
    () => {},
  );
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
    >
      <Choices
        legend="Who can sign in with a password"
        choices={POLICIES}
        value={passwords}
        onChange={setPasswords}
      />
      {passwords === 'administrators' && shown === 'everyone' && (
        <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
          {providers?.length === 0
            ? 'There is no identity provider yet, so only administrators could sign in.'
            : 'Signs out all members who aren’t administrators and have never used an identity provider.'}
        </p>
      )}
      <FormProblem error={change.error} />
      <div>
        <Button type="submit" look="primary" busy={change.isPending} disabled={passwords === shown}>
          Save
        </Button>
      </div>
    </form>
  );
}
