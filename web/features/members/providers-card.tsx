import { useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import type { IdentityProviderRow } from '#server/contract/members.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { type NameOf, useAccountNames } from '../../lib/api/names.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Menu } from '../../ui/dialog/menu.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useMemberChange } from './member-mutations.ts';
import { providersQuery } from './queries.ts';
import { ROLE_NAMES } from './roles.ts';
import { lazyPart } from '../../lib/lazy-part.ts';

const EditProvider = lazyPart(() => import('./edit-provider.tsx'), 'EditProvider');

type Open = { view: 'add' } | { view: 'edit' | 'remove'; provider: IdentityProviderRow } | null;

/** OpenID providers with their rules. */
export function ProvidersCard({ canChange }: { canChange: boolean }) {
  const providers = useQuery(providersQuery);
  const nameOf = useAccountNames();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  return (
    <Card
      flush
      title="Identity providers"
      actions={
        canChange && (
          <Button icon="plus" onClick={() => setOpen({ view: 'add' })}>
            Add provider
          </Button>
        )
      }
    >
      <Loaded query={providers} title="Couldn’t load identity providers" height="h-32">
        {(rows) => (
          <Table
            label="Identity providers"
            rows={rows}
            keyOf={({ name }) => name}
            columns={columnsFor(nameOf, canChange, (view, provider) => setOpen({ view, provider }))}
            empty={
              <Empty icon="shield" title="No identity providers yet">
                {canChange
                  ? 'Let members sign in with your organization’s accounts over OpenID Connect.'
                  : 'An administrator can add OpenID Connect providers.'}
              </Empty>
            }
          />
        )}
      </Loaded>
      <Suspense>
        {open?.view === 'add' && <EditProvider provider={null} onClose={close} />}
        {open?.view === 'edit' && <EditProvider provider={open.provider} onClose={close} />}
      </Suspense>
      {open?.view === 'remove' && <RemoveProvider provider={open.provider} onClose={close} />}
    </Card>
  );
}

function columnsFor(
  nameOf: NameOf,
  canChange: boolean,
  open: (view: 'edit' | 'remove', provider: IdentityProviderRow) => void,
): Column<IdentityProviderRow>[] {
  const columns: Column<IdentityProviderRow>[] = [
    {
      head: 'Provider',
      cell: ({ label, issuer }) => (
        <>
          <span className="font-medium">{label}</span>
          <p className="text-xs wrap-anywhere text-muted">{issuer}</p>
        </>
      ),
    },
    {
      head: 'Rules',
      cell: ({ rules }) => (
        <ul>
          {rules.map(({ group, role, account }, index) => (
            <li key={index}>
              {group === null ? <em>Everyone</em> : <code className="font-mono text-xs">{group}</code>}
              <span className="text-muted">
                {' '}
                → {ROLE_NAMES[role]}, {account === null ? 'own account' : nameOf(account)}
              </span>
            </li>
          ))}
        </ul>
      ),
    },
    {
      head: 'Session',
      cell: ({ session_hours: hours }) => showCounted(hours, 'hour'),
      isExtra: true,
    },
    {
      head: 'Empty accounts',
      cell: ({ empty_accounts: empty }) => (empty === 'suspend' ? 'Suspended' : 'Kept'),
      isExtra: true,
    },
  ];
  if (!canChange) return columns;
  return [
    ...columns,
    actionsColumn((provider) => (
      <span className="-my-1.5 inline-flex">
        <Menu
          label={`Actions for ${provider.label}`}
          items={[
            { label: 'Edit', icon: 'cog', onChoose: () => open('edit', provider) },
            { label: 'Remove', icon: 'close', onChoose: () => open('remove', provider), isDanger: true },
          ]}
        />
      </span>
    )),
  ];
}

function RemoveProvider({ provider, onClose }: { provider: IdentityProviderRow; onClose: () => void }) {
  const remove = useMemberChange(
    () => api<Change>('DELETE', `/api/v1/identity-providers/${provider.name}`),
    'Identity provider removed.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Remove ${provider.label}?`}>
      <p>
        Its members are signed out and stay members. Those without a password can’t sign in until you create a
        reset link for them. Accounts and keys don’t change.
      </p>
      <FormProblem error={remove.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
          Remove provider
        </Button>
      </DialogActions>
    </Dialog>
  );
}
