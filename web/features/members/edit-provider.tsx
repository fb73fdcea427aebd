import { useState } from 'react';
import type { IdentityRule } from '#server/contract/members.ts';
import type { IdentityProviderRow, PutIdentityProvider } from '#server/contract/members.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Checkbox, SelectField, TextField } from '../../ui/form/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useMemberChange } from './member-mutations.ts';
import { RulesField } from './rules-field.tsx';

type Form = Required<Omit<PutIdentityProvider, 'client_secret' | 'scopes' | 'rules'>> & {
  name: string;
  scopes: string;
  rules: IdentityRule[];
  /** Empty: as before. */ secret: string;
};

const NEW: Form = {
  name: '',
  label: '',
  issuer: '',
  client_id: '',
  scopes: 'email profile',
  groups_claim: 'groups',
  link_by_email: false,
  session_hours: 12,
  empty_accounts: 'keep',
  network: 'public',
  rules: [{ group: '', role: 'member', account: null }],
  secret: '',
};

function formOf(provider: IdentityProviderRow): Form {
  const { has_client_secret: _, redirect_uri: __, scopes, ...terms } = provider;
  return { ...terms, scopes: scopes.join(' '), secret: '' };
}

function bodyOf(form: Form): PutIdentityProvider {
  const { name: _, secret, scopes, rules, ...terms } = form;
  return {
    ...terms,
    scopes: scopes.split(/[\s,]+/).filter((scope) => scope !== ''),
    rules: rules.map((rule) => ({ ...rule, group: rule.group === '' ? null : rule.group })),
    ...(secret === '' ? {} : { client_secret: secret }),
  };
}

/** Part of the redirect URI, from the label. */
const nameFrom = (label: string): string =>
  label
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 32) || 'sso';

/** Adds a provider, or changes one. */
export function EditProvider({
  provider,
  onClose,
}: {
  provider: IdentityProviderRow | null;
  onClose: () => void;
}) {
  const [form, setForm] = useState<Form>(provider === null ? NEW : formOf(provider));
  const set = (change: Partial<Form>): void => setForm((before) => ({ ...before, ...change }));
  const name = provider?.name ?? nameFrom(form.label);
  const save = useMemberChange(
    () => api<Change>('PUT', `/api/v1/identity-providers/${name}`, bodyOf(form)),
    provider === null ? 'Identity provider added.' : 'Identity provider saved.',
    onClose,
  );
  const { error } = save;
  return (
    <Dialog
      onClose={onClose}
      shape="side"
      title={provider === null ? 'Add identity provider' : `Edit ${provider.label}`}
    >
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <TextField
          label="Name on the button"
          required
          maxLength={40}
          placeholder="Acme SSO"
          value={form.label}
          onChange={({ target }) => set({ label: target.value })}
          error={fieldError(error, 'label')}
        />
        <div>
          <p className="font-medium">Redirect URI</p>
          <p className="mb-1 text-xs text-muted">
            Register it at the provider, for the authorization code flow.
          </p>
          <Copyable
            text={provider?.redirect_uri ?? `${location.origin}/sign-in/${name}/callback`}
            what="redirect URI"
          />
        </div>
        <TextField
          label="Issuer"
          required
          type="url"
          placeholder="https://login.example.com"
          hint="Metadata is read from /.well-known/openid-configuration below it."
          value={form.issuer}
          onChange={({ target }) => set({ issuer: target.value })}
          error={fieldError(error, 'issuer')}
        />
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField
            label="Client ID"
            required
            autoComplete="off"
            value={form.client_id}
            onChange={({ target }) => set({ client_id: target.value })}
            error={fieldError(error, 'client_id')}
          />
          <TextField
            label="Client secret"
            type="password"
            autoComplete="off"
            placeholder={provider?.has_client_secret === true ? 'Unchanged' : ''}
            hint="Stored encrypted and not shown. Empty for a public client."
            value={form.secret}
            onChange={({ target }) => set({ secret: target.value })}
            error={fieldError(error, 'client_secret')}
          />
        </div>
        <RulesField rules={form.rules} onChange={(rules) => set({ rules })} />
        {fieldError(error, 'rules') !== null && (
          <p role="alert" className="text-xs text-danger">
            {fieldError(error, 'rules')}
          </p>
        )}
        <SelectField
          label="When the last member of an account loses access"
          value={form.empty_accounts}
          onChange={({ target }) => set({ empty_accounts: target.value === 'suspend' ? 'suspend' : 'keep' })}
        >
          <option value="keep">Keep the account active; its keys work</option>
          <option value="suspend">Suspend the account; its keys are rejected</option>
        </SelectField>
        <details>
          <summary className="cursor-pointer font-medium">Advanced</summary>
          <div className="mt-3 flex flex-col gap-4">
            <div className="grid gap-4 sm:grid-cols-2">
              <TextField
                label="Scopes"
                hint="Besides openid"
                value={form.scopes}
                onChange={({ target }) => set({ scopes: target.value })}
                error={fieldError(error, 'scopes')}
              />
              <TextField
                label="Groups claim"
                hint="A name, or a path such as realm_access.roles"
                value={form.groups_claim}
                onChange={({ target }) => set({ groups_claim: target.value })}
                error={fieldError(error, 'groups_claim')}
              />
              <TextField
                label="Session length in hours"
                type="number"
                min={1}
                max={720}
                hint="Groups are read again at each sign-in."
                value={form.session_hours}
                onChange={({ target }) => set({ session_hours: Number(target.value) })}
                error={fieldError(error, 'session_hours')}
              />
            </div>
            <Checkbox
              label="Link members by verified email"
              hint="Only for a provider that you trust: it can sign in as any member with a password."
              checked={form.link_by_email}
              onChange={({ target }) => set({ link_by_email: target.checked })}
            />
            <Checkbox
              label="Allow a private network"
              hint="For a provider on this machine or in your own network."
              checked={form.network === 'private'}
              onChange={({ target }) => set({ network: target.checked ? 'private' : 'public' })}
            />
          </div>
        </details>
        <FormProblem
          error={error}
          fields={[
            'label',
            'issuer',
            'client_id',
            'client_secret',
            'rules',
            'scopes',
            'groups_claim',
            'session_hours',
          ]}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={save.isPending}>
            {provider === null ? 'Add provider' : 'Save'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
