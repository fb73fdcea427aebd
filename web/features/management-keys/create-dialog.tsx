import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { CreatedManagementKey } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { useIsAdministrator, useMe } from '../../lib/api/session.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { type ExpiryChoice, ExpiryField, expiryOf } from '../../ui/form/expiry-field.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { managementKeysQuery } from './queries.ts';
import { NO_ACCESS, ScopesField, scopesOf } from './scopes-field.tsx';

/** The option value for the whole installation. */
const ALL = '';

/** A secret while it is visible. */
export type NewManagementKey = Pick<CreatedManagementKey, 'secret' | 'event'> & { name: string };

export function CreateDialog({
  onClose,
  onCreated,
}: {
  onClose: () => void;
  onCreated: (made: NewManagementKey) => void;
}) {
  const { account: own } = useMe();
  const zone = useZone();
  const isAdministrator = useIsAdministrator();
  const { data: accounts = [] } = useQuery({ ...accountsQuery, enabled: isAdministrator });
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [account, setAccount] = useState(isAdministrator ? ALL : own.id);
  const [expiry, setExpiry] = useState<ExpiryChoice>({ choice: '90', date: '' });
  const [accesses, setAccesses] = useState(NO_ACCESS);
  const scopes = scopesOf(accesses);
  const create = useMutation({
    mutationFn: async (): Promise<void> => {
      const expires = expiryOf(expiry, zone, Date.now());
      const { secret, event } = await api<CreatedManagementKey>('POST', '/api/v1/management-keys', {
        name: name.trim(),
        scopes,
        account: account === ALL ? null : account,
        ...(expires == null ? {} : { expires_at: expires }),
      });
      onCreated({ name: name.trim(), secret, event });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: managementKeysQuery.queryKey }),
  });
  return (
    <Dialog onClose={onClose} title="Create management key">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <TextField
          label="Name"
          required
          maxLength={100}
          autoComplete="off"
          placeholder="terraform"
          hint="The program or team that uses it."
          value={name}
          onChange={({ target }) => setName(target.value)}
          error={fieldError(create.error, 'name')}
        />
        {isAdministrator && (
          <SelectField
            label="Account"
            value={account}
            onChange={({ target }) => setAccount(target.value)}
            hint={account === ALL ? 'Manages the whole installation.' : 'Manages what its members can.'}
            error={fieldError(create.error, 'account')}
          >
            <option value={ALL}>All accounts</option>
            <NamedOptions rows={accounts} />
          </SelectField>
        )}
        <ScopesField value={accesses} onChange={setAccesses} />
        <ExpiryField value={expiry} onChange={setExpiry} error={fieldError(create.error, 'expires_at')} />
        <FormProblem error={create.error} fields={['name', 'account', 'expires_at']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={create.isPending} disabled={scopes.length === 0}>
            Create key
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
