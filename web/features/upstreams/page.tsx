import { useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import type { ModelRoute } from '#server/contract/models.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { CustomModels } from './custom-models.tsx';
import { FirstUpstream } from './first-upstream.tsx';
import { dispatchQuery, upstreamsQuery } from './upstream-queries.ts';
import { UpstreamTable } from './upstream-table.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const EditUpstream = lazyPart(() => import('./edit-upstream.tsx'), 'EditUpstream');
const UpstreamDialog = lazyPart(() => import('./upstream-dialog.tsx'), 'UpstreamDialog');
const RemoveUpstream = lazyPart(() => import('./remove-upstream.tsx'), 'RemoveUpstream');
const DefineModel = lazyPart(() => import('./edit-model.tsx'), 'EditModel');
const RetireModel = lazyPart(() => import('./retire-model.tsx'), 'RetireModel');

/** Upstreams by name, since their rows are refetched. */
type Open =
  | { view: 'add' }
  | { view: 'show' | 'test' | 'change' | 'remove'; upstream: string }
  | { view: 'define'; model: ModelRoute | null }
  | { view: 'retire'; model: ModelRoute }
  | null;

export function UpstreamsPage() {
  const upstreams = useQuery(upstreamsQuery);
  const dispatch = useQuery(dispatchQuery);
  const mayChange = useIsAdministrator();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const add = (): void => setOpen({ view: 'add' });
  useNotices(
    ['upstream.', 'model.'],
    [upstreamsQuery.queryKey, dispatchQuery.queryKey, modelsQuery.queryKey],
  );
  useShortcuts(mayChange ? { n: add } : {});
  const { data: list } = upstreams;
  const models = dispatch.data ?? [];
  const row =
    open !== null && 'upstream' in open ? list?.data.find(({ name }) => name === open.upstream) : undefined;
  return (
    <>
      <PageHead
        title="Upstreams"
        about="Model providers that requests are relayed to. Health as seen by this server, every 5 s."
      >
        {mayChange && (
          <Button look="primary" icon="plus" onClick={add} title="n">
            Add upstream
          </Button>
        )}
      </PageHead>
      <div className="flex flex-col gap-5">
        <Card flush>
          <Loaded query={upstreams} title="Couldn’t load upstreams">
            {({ data }) => (
              <>
                <UpstreamTable
                  upstreams={data}
                  mayChange={mayChange}
                  onOpen={(what, upstream) => setOpen({ view: what, upstream })}
                />
                {data.every(({ source }) => source === 'demo') && (
                  <div className="border-t border-line">
                    <FirstUpstream onAdd={mayChange ? add : null} />
                  </div>
                )}
              </>
            )}
          </Loaded>
        </Card>
        <CustomModels
          models={dispatch}
          upstreams={list?.data ?? []}
          onDefine={mayChange ? (model) => setOpen({ view: 'define', model }) : null}
          onRetire={mayChange ? (model) => setOpen({ view: 'retire', model }) : null}
        />
      </div>
      <Suspense>
        {open?.view === 'add' && list && (
          <EditUpstream
            row={null}
            list={list}
            onClose={close}
            onSaved={(upstream) => setOpen({ view: 'show', upstream })}
          />
        )}
        {open?.view === 'change' && list && row && (
          <EditUpstream row={row} list={list} onClose={close} onSaved={close} />
        )}
        {(open?.view === 'show' || open?.view === 'test') && row && (
          <UpstreamDialog
            key={row.name}
            row={row}
            models={models}
            mayChange={mayChange}
            testsAtOnce={open.view === 'test'}
            onClose={close}
            onOpen={(what) => setOpen({ view: what, upstream: row.name })}
          />
        )}
        {open?.view === 'remove' && row && <RemoveUpstream row={row} models={models} onClose={close} />}
        {open?.view === 'define' && list && (
          <DefineModel model={open.model} models={models} upstreams={list.data} onClose={close} />
        )}
        {open?.view === 'retire' && list && (
          <RetireModel model={open.model} upstreams={list.data} onClose={close} />
        )}
      </Suspense>
    </>
  );
}
