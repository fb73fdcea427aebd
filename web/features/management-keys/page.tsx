import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ManagementKeyRow } from '#server/contract/keys.ts';
import { useMe } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { SecretDialog } from '../../ui/dialog/secret-dialog.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { CreateDialog, type NewManagementKey } from './create-dialog.tsx';
import { KeysTable } from './keys-table.tsx';
import { managementKeysQuery } from './queries.ts';
import { RevokeDialog } from './revoke-dialog.tsx';

type Open =
  | { view: 'create' }
  | { view: 'created'; made: NewManagementKey }
  | { view: 'revoke'; key: ManagementKeyRow };

export function ManagementKeysPage() {
  const keys = useQuery(managementKeysQuery);
  const mayChange = useMe().member.role !== 'auditor';
  const [open, setOpen] = useState<Open | null>(null);
  const close = (): void => setOpen(null);
  const create = (): void => setOpen({ view: 'create' });
  useNotices(['management_key.'], [managementKeysQuery.queryKey]);
  useShortcuts(mayChange ? { n: create } : {});
  return (
    <>
      <PageHead
        title="Management keys"
        about="Keys with which programs use the management API. They can’t call models."
      >
        {mayChange && (
          <Button look="primary" icon="plus" onClick={create} title="n">
            Create management key
          </Button>
        )}
      </PageHead>
      <Card flush>
        <Loaded query={keys} title="Couldn’t load management keys">
          {({ data }) => (
            <KeysTable
              keys={data}
              mayRevoke={mayChange}
              onRevoke={(key) => setOpen({ view: 'revoke', key })}
            />
          )}
        </Loaded>
      </Card>
      {open?.view === 'create' && (
        <CreateDialog onClose={close} onCreated={(made) => setOpen({ view: 'created', made })} />
      )}
      {open?.view === 'created' && (
        <SecretDialog
          title={`Management key ${open.made.name} created`}
          secret={open.made.secret}
          what="secret"
          about="Only its digest is stored."
          onClose={() => {
            announceChange('Management key created.', open.made);
            close();
          }}
        >
          <p className="text-muted">
            Send it to <code className="font-mono text-xs">/api/v1</code> as{' '}
            <code className="font-mono text-xs">Authorization: Bearer dbm_…</code>
          </p>
        </SecretDialog>
      )}
      {open?.view === 'revoke' && <RevokeDialog managementKey={open.key} onClose={close} />}
    </>
  );
}
