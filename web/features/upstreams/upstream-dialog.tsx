import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow, UpstreamTestResult } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { ChangeSummary } from '../../ui/change.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';
import { Facts } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { Credentials, type LastChange } from './credentials.tsx';
import { HealthMark } from './health-mark.tsx';
import { upstreamStatus } from './health-status.ts';
import { choiceOf } from './provider-choices.ts';
import { TestResult } from './test-result.tsx';
import { upstreamsQuery } from './upstream-queries.ts';
import { SourceMark } from './upstream-table.tsx';

type UpstreamDialogProps = {
  row: UpstreamRow;
  models: readonly ModelRoute[];
  mayChange: boolean;
  /** Whether to run the test when the dialog opens. */
  testsAtOnce: boolean;
  onClose: () => void;
  onOpen: (what: 'change' | 'remove') => void;
};

/** Upstream details: health, credentials, configuration and a connection test. */
export function UpstreamDialog({
  row,
  models,
  mayChange,
  testsAtOnce,
  onClose,
  onOpen,
}: UpstreamDialogProps) {
  const { name, source, terms, state } = row;
  const queries = useQueryClient();
  const [lastChange, setLastChange] = useState<LastChange>(null);
  const refresh = (): void => void queries.invalidateQueries({ queryKey: upstreamsQuery.queryKey });
  const test = useMutation({
    mutationFn: () => api<UpstreamTestResult>('POST', `/api/v1/upstreams/${name}/test`),
    onSuccess: refresh,
  });
  const pause = useMutation({
    mutationFn: (paused: boolean) => api<Change>('PATCH', `/api/v1/upstreams/${name}`, { paused }),
    onSuccess: (change, paused) => {
      setLastChange({
        done: paused ? `${name} paused. Running requests finish.` : `${name} resumed.`,
        change,
      });
      refresh();
    },
  });
  const begin = useEffectEvent(() => testsAtOnce && test.mutate());
  useEffect(() => void begin(), []);
  const isOwn = mayChange && source === 'log';
  const directed = models.filter(
    ({ terms: each }) => 'targets' in each && each.targets.some(({ upstream }) => upstream === name),
  );
  return (
    <Dialog onClose={onClose} shape="side" title={<>Upstream {name}</>}>
      <div className="flex flex-col gap-6">
        <div className="flex flex-wrap items-center justify-between gap-3">
          <div>
            <HealthMark status={upstreamStatus(row)} />
          </div>
          {mayChange && (
            <div className="flex flex-wrap gap-2">
              <Button icon="rocket" busy={test.isPending} onClick={() => test.mutate()}>
                Test connection
              </Button>
              {isOwn && (
                <>
                  <Button
                    icon={state === 'paused' ? 'play' : 'pause'}
                    busy={pause.isPending}
                    onClick={() => pause.mutate(!terms.paused)}
                  >
                    {terms.paused ? 'Resume' : 'Pause'}
                  </Button>
                  <Button icon="cog" onClick={() => onOpen('change')}>
                    Edit
                  </Button>
                  <Button look="danger" onClick={() => onOpen('remove')}>
                    Remove
                  </Button>
                </>
              )}
            </div>
          )}
        </div>
        <div role="status" className="empty:hidden">
          {lastChange && (
            <p className="rounded-lg bg-sunken px-3 py-2">
              <ChangeSummary {...lastChange} />
            </p>
          )}
        </div>
        {isOwn && terms.models.length === 0 && directed.length === 0 && (
          <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">
            This upstream receives no requests yet. Edit it to list models, or add a custom model that routes
            to it.
          </p>
        )}
        <FormProblem error={pause.error ?? test.error} />
        <TestResult isRunning={test.isPending} tested={test.data ?? null} />
        <Credentials row={row} mayChange={isOwn} onChanged={setLastChange} />
        <section>
          <h3 className="mb-2 font-semibold">Configuration</h3>
          <Facts
            facts={[
              ['Protocol', protocolOf(row)],
              [
                'Base URL',
                source !== 'demo' && terms.base_url !== undefined && (
                  <code key="address" className="font-mono text-xs break-all">
                    {terms.base_url}
                  </code>
                ),
              ],
              [
                'Network access',
                source === 'demo'
                  ? 'Built in'
                  : terms.network === 'private'
                    ? 'Public internet, localhost and private networks'
                    : 'Public internet only',
              ],
              [
                'Options',
                terms.options !== undefined &&
                  Object.entries(terms.options)
                    .map(([key, value]) => `${key}=${value}`)
                    .join(', '),
              ],
              [
                'Models',
                terms.models.length === 0 ? (
                  'Custom models only'
                ) : (
                  <code key="models" className="font-mono text-xs break-words">
                    {terms.models.join(', ')}
                  </code>
                ),
              ],
              [
                'Custom models',
                directed.length > 0 && (
                  <code key="directed" className="font-mono text-xs break-words">
                    {directed.map(({ model }) => model).join(', ')}
                  </code>
                ),
              ],
              [
                'Routes',
                <code key="routes" className="font-mono text-xs break-words">
                  {row.routes.join(', ')}
                </code>,
              ],
              [
                'On client disconnect',
                terms.on_client_disconnect === 'drain' ? 'Read the reply to its end' : 'Cancel the request',
              ],
              [
                'Retries',
                terms.retries === 0 ? 'None' : `Up to ${terms.retries}, before the first byte of a reply`,
              ],
              ['Source', source === 'log' ? false : <SourceMark key="from" source={source} />],
            ]}
          />
          {source === 'environment' && (
            <p className="mt-2 text-xs text-muted">
              Configured by DAYBOOK_UPSTREAMS or OPENAI_API_KEY. Change the variable and restart the server.
            </p>
          )}
        </section>
      </div>
    </Dialog>
  );
}

function protocolOf({ terms }: UpstreamRow): string {
  if (terms.provider === 'bridge') return `AI SDK package ${terms.package ?? ''}`;
  if (terms.provider === 'anthropic') return 'Anthropic Messages API';
  if (terms.provider === 'gemini') return 'Gemini API';
  const { id, name } = choiceOf(terms);
  return id === 'openai' || id === 'other' ? 'OpenAI API' : `OpenAI API (${name})`;
}
