import { useQuery } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { sinksQuery } from './sink-queries.ts';
import { SinkTable } from './sink-table.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

const EditSink = lazyPart(() => import('./edit-sink.tsx'), 'EditSink');
const SinkDialog = lazyPart(() => import('./sink-dialog.tsx'), 'SinkDialog');
const MoveSink = lazyPart(() => import('./move-sink.tsx'), 'MoveSink');
const RemoveSink = lazyPart(() => import('./remove-sink.tsx'), 'RemoveSink');

/** Sinks by id, since their rows are refetched. */
type Open = { view: 'add' } | { view: 'show' | 'edit' | 'move' | 'remove'; sink: string } | null;

export function SinksPage() {
  const sinks = useQuery(sinksQuery);
  const mayChange = useIsAdministrator();
  const [open, setOpen] = useState<Open>(null);
  const close = (): void => setOpen(null);
  const add = (): void => setOpen({ view: 'add' });
  useNotices(['sink.'], [sinksQuery.queryKey]);
  useShortcuts(mayChange ? { n: add } : {});
  const shown = open !== null && 'sink' in open ? sinks.data?.find(({ id }) => id === open.sink) : undefined;
  return (
    <>
      <PageHead
        title="Sinks"
        about="Receivers of spend events, such as billing systems. Each has its own position in the log."
      >
        {mayChange && (
          <Button look="primary" icon="plus" onClick={add} title="n">
            Add sink
          </Button>
        )}
      </PageHead>
      <Card flush>
        <Loaded query={sinks} title="Couldn’t load sinks">
          {(rows) => (
            <SinkTable sinks={rows} mayChange={mayChange} onOpen={(view, sink) => setOpen({ view, sink })} />
          )}
        </Loaded>
      </Card>
      <Suspense>
        {open?.view === 'add' && (
          <EditSink sink={null} onClose={close} onSaved={(sink) => setOpen({ view: 'show', sink })} />
        )}
        {open?.view === 'show' && shown && (
          <SinkDialog
            key={shown.id}
            sink={shown}
            mayChange={mayChange}
            onClose={close}
            onOpen={(view) => setOpen({ view, sink: shown.id })}
          />
        )}
        {open?.view === 'edit' && shown && <EditSink sink={shown} onClose={close} onSaved={close} />}
        {open?.view === 'move' && shown && <MoveSink sink={shown} onClose={close} />}
        {open?.view === 'remove' && shown && <RemoveSink sink={shown} onClose={close} />}
      </Suspense>
    </>
  );
}
