import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { KeyTerms } from '#db/events/events.ts';
import type { CreatedKey } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { useIsAdministrator, useMe } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { isTermsError, TermsEditor } from '../../ui/terms/editor.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { type NewSecret, useSecretMutation } from './key-mutations.ts';
import { type ExpiryChoice, ExpiryField, expiryOf } from '../../ui/form/expiry-field.tsx';

type CreateDialogProps = {
  /** The preselected account, where the role may choose one. */ account: string | undefined;
  onClose: () => void;
  onCreated: (made: NewSecret) => void;
};

export function CreateDialog({ account: firstAccount, onClose, onCreated }: CreateDialogProps) {
  const { account: own } = useMe();
  const zone = useZone();
  const isAdministrator = useIsAdministrator();
  const accounts = useQuery({ ...accountsQuery, enabled: isAdministrator });
  const [name, setName] = useState('');
  const [account, setAccount] = useState(isAdministrator ? (firstAccount ?? own.id) : own.id);
  const [expiry, setExpiry] = useState<ExpiryChoice>({ choice: 'never', date: '' });
  const [terms, setTerms] = useState<KeyTerms>({});
  const create = useSecretMutation(
    () => {
      const expires = expiryOf(expiry, zone, Date.now());
      return api<CreatedKey>('POST', '/api/v1/keys', {
        name: name.trim(),
        ...(account === own.id ? {} : { account }),
        ...(expires == null ? {} : { expires_at: expires }),
        ...(Object.keys(terms).length === 0 ? {} : { terms }),
      });
    },
    { why: 'created', name: name.trim(), models: terms.models },
    onCreated,
  );
  const isNarrowed = Object.keys(terms).length > 0;
  return (
    <Dialog onClose={onClose} title="Create key">
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
          placeholder="ci-nightly"
          hint="For example, the application or team that uses it. You can change it later."
          value={name}
          onChange={({ target }) => setName(target.value)}
          error={fieldError(create.error, 'name')}
        />
        {isAdministrator && (accounts.data?.length ?? 0) > 1 && (
          <SelectField
            label="Account"
            value={account}
            onChange={({ target }) => setAccount(target.value)}
            error={fieldError(create.error, 'account')}
          >
            {accounts.data?.map((each) => (
              <option key={each.id} value={each.id}>
                {each.name}
                {each.id === own.id ? ' (your own)' : ''}
              </option>
            ))}
          </SelectField>
        )}
        <ExpiryField value={expiry} onChange={setExpiry} error={fieldError(create.error, 'expires_at')} />
        <details
          className="rounded-lg border border-line"
          onInvalidCapture={({ currentTarget }) => (currentTarget.open = true)}
          open={isTermsError(create.error) || undefined}
        >
          <summary className="px-3 py-2 font-medium">
            Restrict this key (optional)
            <span className="ml-2 font-normal text-muted">
              {isNarrowed
                ? describeTerms(terms, 'key')
                : 'Without restrictions the key can use everything its account can.'}
            </span>
          </summary>
          <div className="border-t border-line p-3">
            <TermsEditor kind="key" terms={terms} onChange={setTerms} errors={create.error} />
          </div>
        </details>
        {!isTermsError(create.error) && (
          <FormProblem error={create.error} fields={['name', 'account', 'expires_at']} />
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={create.isPending}>
            Create key
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
