import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import type { KeyRow } from '#server/contract/keys.ts';
import { isActive, keysQuery, useIsOverseer } from '../../lib/api/names.ts';
import type { KeySearch, KeySearchChange } from '../../lib/search/keys.ts';
import { withoutBlanks } from '../../lib/search/params.ts';
import { useMe } from '../../lib/api/session.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import type { NewSecret } from './key-mutations.ts';
import { CheckDialog } from './check-dialog.tsx';
import { CreateDialog } from './create-dialog.tsx';
import { DetailsDialog } from './details-dialog.tsx';
import { EditDialog } from './edit-dialog.tsx';
import { LeakedDialog, RevokeDialog } from './revoke-dialogs.tsx';
import { useKeyList } from './keys-list.ts';
import { KeysFilter } from './keys-filter.tsx';
import { type KeyAct, KeysTable } from './keys-table.tsx';
import { KeySecretDialog } from './key-secret-dialog.tsx';
import { RotateDialog } from './rotate-dialog.tsx';

type Open = { act: 'create' } | { act: KeyAct; key: KeyRow } | { act: 'made'; made: NewSecret };

export function KeysPage() {
  const { member } = useMe();
  const canChange = member.role !== 'auditor';
  const search = useSearch({ from: '/inside/keys' });
  const navigate = useNavigate({ from: '/keys' });
  const isOverseer = useIsOverseer();
  const keys = useKeyList(search);
  const rows = keys.data?.data ?? [];
  useNotices(['key.'], [keysQuery.queryKey]);
  const [open, setOpen] = useState<Open | null>(null);
  const close = (): void => setOpen(null);
  const narrow = (change: KeySearchChange): void =>
    void navigate({ search: (before) => withoutBlanks({ ...before, ...change }), replace: true });
  const show = (made: NewSecret): void => setOpen({ act: 'made', made });
  useShortcuts(canChange ? { n: () => setOpen({ act: 'create' }) } : {});

  const act = (what: KeyAct, id: string): void => {
    const key = rows.find((each) => each.id === id);
    if (!key) return;
    narrow({ key: undefined });
    setOpen({ act: what, key });
  };
  const detailed = rows.find(({ id }) => id === search.key);

  return (
    <>
      <PageHead title="API keys" about="Keys for calling the API. The secret is shown only once.">
        {canChange && (
          <Button look="primary" icon="plus" onClick={() => setOpen({ act: 'create' })} title="n">
            Create key
          </Button>
        )}
      </PageHead>
      <Loaded query={keys} title="Couldn’t load keys">
        {({ rows_omitted: omitted }) =>
          rows.length === 0 ? (
            <Card>
              <Empty icon="key" title="No API keys yet">
                <p>Create a key to send requests. Usage and limits are tracked per key.</p>
                {canChange && (
                  <Button
                    look="primary"
                    icon="plus"
                    className="mt-3"
                    onClick={() => setOpen({ act: 'create' })}
                  >
                    Create key
                  </Button>
                )}
              </Empty>
            </Card>
          ) : (
            <Card
              flush
              title={<KeysCount rows={rows} search={search} />}
              actions={<KeysFilter rows={rows} search={search} onChange={narrow} hasAccounts={isOverseer} />}
            >
              {rows.some((row) => fits(row, search)) ? (
                <KeysTable
                  rows={rows.filter((row) => fits(row, search))}
                  hasAccounts={isOverseer}
                  canChange={canChange}
                  onOpen={(key) => narrow({ key })}
                  onAct={act}
                />
              ) : (
                <Empty icon="filter" title="No matching keys">
                  <Button
                    className="mt-2"
                    onClick={() => narrow({ name: undefined, account: undefined, state: 'all' })}
                  >
                    Show all keys
                  </Button>
                </Empty>
              )}
              {omitted > 0 && (
                <p className="border-t border-line px-4 py-2 text-muted">
                  The oldest {showCount(omitted)} keys are not listed. Search by name, ID or account to find
                  them.
                </p>
              )}
            </Card>
          )
        }
      </Loaded>
      {detailed && (
        <DetailsDialog
          row={detailed}
          canChange={canChange}
          onAct={(what) => act(what, detailed.id)}
          onClose={() => narrow({ key: undefined })}
        />
      )}
      {open?.act === 'create' && <CreateDialog onClose={close} onCreated={show} account={search.account} />}
      {open?.act === 'change' && <EditDialog row={open.key} onClose={close} />}
      {open?.act === 'rotate' && <RotateDialog row={open.key} onClose={close} onCreated={show} />}
      {open?.act === 'check' && <CheckDialog row={open.key} onClose={close} />}
      {open?.act === 'leaked' && <LeakedDialog row={open.key} onClose={close} onCreated={show} />}
      {open?.act === 'revoke' && <RevokeDialog row={open.key} onClose={close} />}
      {open?.act === 'made' && (
        <KeySecretDialog
          made={open.made}
          onClose={() => {
            announceChange(
              {
                created: 'Key created.',
                rotated: 'Key rotated.',
                leaked: 'Leaked secret replaced.',
              }[open.made.why],
              open.made.change,
            );
            close();
          }}
        />
      )}
    </>
  );
}

function KeysCount({ rows, search }: { rows: readonly KeyRow[]; search: KeySearch }) {
  const shown = rows.filter((row) => fits(row, search)).length;
  const ended = rows.filter((row) => !isActive(row)).length;
  return (
    <span>
      {showCounted(shown, 'key')}
      {search.state === undefined && ended > 0 && (
        <span className="ml-2 text-sm font-normal text-muted">{ended} inactive</span>
      )}
    </span>
  );
}

function fits(row: KeyRow, { account, state, name = '' }: KeySearch): boolean {
  if (account !== undefined && row.account !== account) return false;
  if (state === undefined ? !isActive(row) : state !== 'all' && row.state !== state) return false;
  const text = name.toLowerCase();
  return (
    `${row.name} ${row.account_name}`.toLowerCase().includes(text) ||
    `dbk_${row.id}`.toLowerCase().includes(text) ||
    row.last4.toLowerCase() === text
  );
}
