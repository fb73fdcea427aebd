import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { SessionRow } from '#server/contract/session.ts';
import { api, type List } from '../../lib/api/api.ts';
import { meQuery } from '../../lib/api/session.ts';
import { useLeave } from '../../lib/hooks/use-leave.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { announce } from '../../ui/dialog/toast.tsx';
import { Ago, When } from '../../ui/when.tsx';
import { showCount } from '../../lib/format/show.ts';

/** The member's sessions, with actions to end them. */
export function SessionsCard() {
  const [isLeaving, setLeaving] = useState(false);
  const query = useQuery(sessionsQuery);
  useNotices(['session.', 'member.'], [sessionsQuery.queryKey, meQuery.queryKey]);
  return (
    <Card
      title="Sessions"
      flush
      className="min-w-0 lg:col-span-2"
      actions={
        <Button look="danger" icon="door" onClick={() => setLeaving(true)}>
          Sign out everywhere
        </Button>
      }
    >
      <Loaded query={query} title="Couldn’t load sessions" height="h-28">
        {(sessions) => <Table label="Sessions" columns={COLUMNS} rows={sessions} keyOf={({ id }) => id} />}
      </Loaded>
      {isLeaving && <SignOutEverywhere count={query.data?.length ?? 1} onClose={() => setLeaving(false)} />}
    </Card>
  );
}

const COLUMNS: readonly Column<SessionRow>[] = [
  {
    head: 'Browser',
    cell: ({ browser, is_current }) => (
      <span className="inline-flex flex-wrap items-center gap-2">
        {browser} {is_current && <Badge tone="success">Current</Badge>}
      </span>
    ),
  },
  {
    head: 'Network',
    cell: ({ network }) => <code className="font-mono text-xs">{network}</code>,
    isExtra: true,
  },
  { head: 'Last active', cell: ({ last_seen_at }) => <Ago time={last_seen_at} /> },
  { head: 'Signed in', cell: ({ created_at }) => <When time={created_at} />, isExtra: true },
  { head: 'Expires', cell: ({ expires_at }) => <Ago time={expires_at} />, isExtra: true },
  actionsColumn(({ id, is_current, browser }) => !is_current && <EndSession id={id} browser={browser} />),
];

function EndSession({ id, browser }: Pick<SessionRow, 'id' | 'browser'>) {
  const queries = useQueryClient();
  const end = useMutation({
    mutationFn: () => api<Change>('DELETE', `/api/v1/sessions/${id}`),
    onSuccess: (changed) => announceChange('Session ended.', changed),
    onError: (error) => announce({ text: error.message, tone: 'danger' }),
    onSettled: () => queries.invalidateQueries({ queryKey: sessionsQuery.queryKey }),
  });
  return (
    <Button
      className="min-h-7"
      aria-label={`Sign out ${browser}`}
      busy={end.isPending}
      onClick={() => end.mutate()}
    >
      Sign out
    </Button>
  );
}

function SignOutEverywhere({ count, onClose }: { count: number; onClose: () => void }) {
  const leave = useLeave();
  const signOut = useMutation({
    mutationFn: () => api<Change>('DELETE', '/api/v1/sessions'),
    onSuccess: async () => {
      await leave();
      announce({ text: 'Signed out everywhere.' });
    },
  });
  return (
    <Dialog onClose={onClose} title="Sign out everywhere?">
      <p>
        {count > 1 ? `Ends ${showCount(count)} sessions, including this one.` : 'Ends this session.'} API keys
        keep working. Revoke keys that may have leaked.
      </p>
      <FormProblem error={signOut.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={signOut.isPending} onClick={() => signOut.mutate()}>
          Sign out everywhere
        </Button>
      </DialogActions>
    </Dialog>
  );
}

/** The member's sessions. */
export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: async ({ signal }) =>
    (await api<List<SessionRow>>('GET', '/api/v1/sessions', undefined, signal)).data,
});
