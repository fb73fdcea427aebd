import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { modelsQuery } from '../../lib/api/queries.ts';
import { useMe } from '../../lib/api/session.ts';
import { Copyable } from '../../ui/copy.tsx';
import { Select } from '../../ui/form/field.tsx';
import { LiveMark } from '../../ui/live-mark.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty, Facts } from '../../ui/layout/parts.tsx';
import { KeyStep } from './key-step.tsx';
import { LeaveGuard } from './leave-guard.tsx';
import { SeenPanel } from './seen-panel.tsx';
import { SnippetTabs } from './snippet-tabs.tsx';
import { TestCallPanel } from './test-call-panel.tsx';

const DEMO = 'daybook-demo';

/** From an empty account to a successful request on one page. */
export function FirstCallPage() {
  const { base_url } = useMe();
  // Kept in this page's memory only.
  const [secret, setSecret] = useState<string | null>(null);
  const [chosen, choose] = useState<string | null>(null);
  const models = useQuery(modelsQuery);
  const ids = models.data?.map(({ id }) => id) ?? [];
  const model = chosen ?? (ids.includes(DEMO) ? DEMO : ids[0]) ?? DEMO;
  return (
    <div className="max-w-4xl">
      <PageHead
        title="First call"
        about="Point any OpenAI-compatible or Anthropic-compatible client at this relay."
      />
      <div className="flex flex-col gap-4">
        <Card title="1. Base URL">
          <Facts
            facts={[
              ['Base URL', <Copyable key="base" text={base_url} what="base URL" />],
              [
                'Endpoint',
                <Copyable
                  key="endpoint"
                  text={`${base_url}/chat/completions`}
                  shown={`POST ${base_url}/chat/completions`}
                  what="endpoint"
                />,
              ],
            ]}
          />
        </Card>
        <Card title="2. API key">
          <KeyStep secret={secret} onSecret={setSecret} />
          {secret !== null && <LeaveGuard />}
        </Card>
        <Card
          title="3. Test request"
          actions={
            <label className="flex items-center gap-2 text-muted">
              Model
              <Select
                value={model}
                onChange={(event) => choose(event.target.value)}
                disabled={ids.length === 0}
                className="max-w-52"
              >
                {(ids.length === 0
                  ? [model]
                  : ids.toSorted((a, b) => Number(b === DEMO) - Number(a === DEMO))
                ).map((id) => (
                  <option key={id}>{id}</option>
                ))}
              </Select>
            </label>
          }
        >
          <Loaded query={models} title="Couldn’t load models" height="h-28">
            {(rows) =>
              rows.length === 0 ? (
                <Empty icon="layers" title="No models available">
                  Your plan doesn’t include any of this relay’s models.{' '}
                  <Link to="/limits" className="text-accent underline">
                    View your limits
                  </Link>{' '}
                  or ask an administrator.
                </Empty>
              ) : (
                <TestCallPanel
                  endpoint={`${new URL(base_url).pathname}/chat/completions`}
                  model={model}
                  secret={secret}
                />
              )
            }
          </Loaded>
        </Card>
        <Card title="4. Result" actions={<LiveMark />}>
          <SeenPanel />
        </Card>
        <Card title="5. Use it in your code">
          <SnippetTabs filling={{ baseUrl: base_url, model, secret }} />
        </Card>
      </div>
    </div>
  );
}
