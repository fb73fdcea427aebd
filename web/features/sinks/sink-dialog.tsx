import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { SinkRow } from '#server/contract/sinks.ts';
import { api } from '../../lib/api/api.ts';
import { useAccountNames } from '../../lib/api/names.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { ChangeSummary } from '../../ui/change.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';
import { Facts } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { SinkFailure, SinkLag, SinkState } from '../../ui/sink-marks.tsx';
import { When } from '../../ui/when.tsx';
import { sinksQuery } from './sink-queries.ts';
import type { SinkAction } from './sink-table.tsx';
import { KINDS } from './sink-words.ts';

type SinkDialogProps = {
  sink: SinkRow;
  mayChange: boolean;
  onClose: () => void;
  onOpen: (action: SinkAction) => void;
};

/** Sink details: state, lag, failures, a test event, and its actions. */
export function SinkDialog({ sink, mayChange, onClose, onOpen }: SinkDialogProps) {
  const { name, kind, state, account, restored: isRestored } = sink;
  const queries = useQueryClient();
  const nameOf = useAccountNames();
  const [lastChange, setLastChange] = useState<{ done: string; change: Change } | null>(null);
  const refresh = (): Promise<void> => queries.invalidateQueries({ queryKey: sinksQuery.queryKey });
  const test = useMutation({
    mutationFn: () => api('POST', `/api/v1/sinks/${name}/test`),
    onSuccess: refresh,
  });
  const pause = useMutation({
    mutationFn: (paused: boolean) => api<Change>('PATCH', `/api/v1/sinks/${name}`, { paused }),
    onSuccess: (change, paused) => {
      const retries = state === 'failing' ? `${name} is retried now.` : `${name} resumed.`;
      setLastChange({ done: paused ? `${name} paused.` : retries, change });
      return refresh();
    },
  });
  return (
    <Dialog onClose={onClose} shape="side" title={<>Sink {name}</>}>
      <div className="flex flex-col gap-5">
        {mayChange && (
          <div className="flex flex-wrap gap-2">
            <Button
              icon="rocket"
              busy={test.isPending || sink.test?.state === 'pending'}
              onClick={() => test.mutate()}
            >
              Send test event
            </Button>
            {state === 'failing' && (
              <Button icon="refresh" busy={pause.isPending} onClick={() => pause.mutate(false)}>
                Retry now
              </Button>
            )}
            <Button
              icon={state === 'paused' ? 'play' : 'pause'}
              busy={pause.isPending}
              onClick={() => pause.mutate(state !== 'paused')}
            >
              {state === 'paused' ? 'Resume' : 'Pause'}
            </Button>
            <Button icon="cog" onClick={() => onOpen('edit')}>
              Edit
            </Button>
            <Button icon="clock" onClick={() => onOpen('move')}>
              Move position
            </Button>
            <Button look="danger" onClick={() => onOpen('remove')}>
              Remove
            </Button>
          </div>
        )}
        <div role="status" className="flex flex-col gap-2 empty:hidden">
          {lastChange && (
            <p className="rounded-lg bg-sunken px-3 py-2">
              <ChangeSummary {...lastChange} />
            </p>
          )}
          <TestResult test={sink.test} />
        </div>
        <FormProblem error={pause.error ?? test.error} />
        {isRestored && (
          <p className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
            Paused because the database was restored from a backup, and the original may still deliver. Stop
            the original, then resume.
          </p>
        )}
        <Facts
          facts={[
            [
              'State',
              <div key="state">
                <SinkState {...sink} />
                <SinkFailure sink={sink} />
              </div>,
            ],
            ['Kind', KINDS[kind].name],
            ['Scope', account === null ? 'All accounts' : `${nameOf(account)}, without upstream costs`],
            [
              'Lag',
              <div key="lag">
                <SinkLag {...sink} />
              </div>,
            ],
            ['Position', showCount(sink.position)],
            ['Delivered', showCounted(sink.delivered, 'event')],
            ['Last delivery', timeOf(sink.delivered_at) ?? 'Never'],
            ['Failing since', timeOf(sink.failing_since)],
            ['Paused since', timeOf(sink.paused_at)],
            ['Added', timeOf(sink.created_at)],
            [
              'ID',
              <code key="id" className="font-mono text-xs">
                {sink.id}
              </code>,
            ],
          ]}
        />
        <p className="text-xs text-muted">
          Delivery is at least once and in the order of the log. Receivers ignore events with an{' '}
          <code className="font-mono">id</code> that they have. Addresses and secrets are stored encrypted and
          not shown.
        </p>
      </div>
    </Dialog>
  );
}

const timeOf = (time: string | null) => time !== null && <When time={time} />;

function TestResult({ test }: Pick<SinkRow, 'test'>) {
  if (test === null) return null;
  const { state, at, error } = test;
  switch (state) {
    case 'pending':
      return (
        <p className="rounded-lg bg-sunken px-3 py-2">
          Test event requested. If it isn’t sent within seconds, check under Status that a worker is running.
        </p>
      );
    case 'accepted':
      return (
        <p className="rounded-lg bg-accent-soft px-3 py-2 text-accent">
          Test event accepted, <When time={at} />.
        </p>
      );
    case 'failed':
      return (
        <p className="rounded-lg bg-danger-soft px-3 py-2 text-danger">
          Test event failed with <code className="font-mono">{error}</code>, <When time={at} />.
        </p>
      );
  }
}
