import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamRow, UpstreamTestResult } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api.ts';
import { Button } from '../../ui/button.tsx';
import { ChangeTold } from '../../ui/change.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Facts } from '../../ui/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { Credentials, type Told } from './credentials.tsx';
import { HealthMark } from './health-mark.tsx';
import { upstreamStanding } from './health-words.ts';
import { choiceOf } from './provider-choices.ts';
import { TestResult } from './test-result.tsx';
import { upstreamsQuery } from './upstream-queries.ts';
import { SourceMark } from './upstream-table.tsx';

type UpstreamDialogProps = {
  row: UpstreamRow;
  models: readonly ModelRoute[];
  mayChange: boolean;
  /** It was asked for with the dialog. */
  testsAtOnce: boolean;
  onClose: () => void;
  onOpen: (what: 'change' | 'remove') => void;
};

/** One upstream: how it fares, what it is, its credentials, and a test. */
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
  const [told, setTold] = useState<Told>(null);
  const renew = (): void => void queries.invalidateQueries({ queryKey: upstreamsQuery.queryKey });
  const test = useMutation({
    mutationFn: () => api<UpstreamTestResult>('POST', `/api/upstreams/${name}/test`),
    onSuccess: renew,
  });
  const pause = useMutation({
    mutationFn: (paused: boolean) => api<Change>('PATCH', `/api/upstreams/${name}`, { paused }),
    onSuccess: (change, paused) => {
      setTold({
        done: paused
          ? `${name} is paused: nothing more is sent there, and running calls end as they would.`
          : `${name} is in use again.`,
        change,
      });
      renew();
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
            <HealthMark standing={upstreamStanding(row)} />
          </div>
          {mayChange && (
            <div className="flex flex-wrap gap-2">
              <Button icon="rocket" busy={test.isPending} onClick={() => test.mutate()}>
                Test now
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
                    Change
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
          {told && (
            <p className="rounded-lg bg-sunken px-3 py-2">
              <ChangeTold {...told} />
            </p>
          )}
        </div>
        {isOwn && terms.models.length === 0 && directed.length === 0 && (
          <p className="rounded-lg bg-warn-soft px-3 py-2 text-warn">
            No call goes there yet: let it serve models by name, with “Change”, or define a model that goes
            there.
          </p>
        )}
        <FormProblem error={pause.error ?? test.error} />
        <TestResult isRunning={test.isPending} tested={test.data ?? null} />
        <Credentials row={row} mayChange={isOwn} onTold={setTold} />
        <section>
          <h3 className="mb-2 font-semibold">What it is</h3>
          <Facts
            facts={[
              ['Speaks', speechOf(row)],
              [
                'Address',
                source !== 'demo' && terms.base_url !== undefined && (
                  <code key="address" className="font-mono text-xs break-all">
                    {terms.base_url}
                  </code>
                ),
              ],
              [
                'Network',
                source === 'demo'
                  ? 'Within this server'
                  : terms.network === 'private'
                    ? 'May be on this machine or in a private network'
                    : 'The internet alone',
              ],
              [
                'Options',
                terms.options !== undefined &&
                  Object.entries(terms.options)
                    .map(([key, value]) => `${key}=${value}`)
                    .join(', '),
              ],
              [
                'Serves by name',
                terms.models.length === 0 ? (
                  'Nothing: only models that are defined to go there'
                ) : (
                  <code key="models" className="font-mono text-xs break-words">
                    {terms.models.join(', ')}
                  </code>
                ),
              ],
              [
                'Models that go there',
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
                'When a client leaves',
                terms.on_client_disconnect === 'drain'
                  ? 'The call is read to its end, to know what it cost'
                  : 'The call is cancelled',
              ],
              [
                'Retries',
                terms.retries === 0
                  ? 'None here: another upstream or credential is tried, or the client is told'
                  : `Up to ${terms.retries}, before the first byte of a reply`,
              ],
              ['From', source === 'log' ? false : <SourceMark key="from" source={source} />],
            ]}
          />
          {source === 'environment' && (
            <p className="mt-2 text-xs text-muted">
              It is set by DAYBOOK_UPSTREAMS or OPENAI_API_KEY, and changes there, with a restart. One of the
              same name that is added here can’t take its place.
            </p>
          )}
        </section>
      </div>
    </Dialog>
  );
}

function speechOf({ terms }: UpstreamRow): string {
  if (terms.provider === 'bridge') return `What the package ${terms.package ?? ''} speaks`;
  if (terms.provider === 'anthropic') return 'Anthropic’s messages';
  const { id, name } = choiceOf(terms);
  return id === 'openai' || id === 'other' ? 'OpenAI’s convention' : `OpenAI’s convention, as ${name} does`;
}
