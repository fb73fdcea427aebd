import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { METERS } from '#db/limits/meters.ts';
import { showAmount, WINDOW_WORDS } from '../../lib/limit-words.ts';
import type { RequestDetail, RequestQuota } from '#server/contract/requests.ts';
import { useAccountNames, useKeyNames } from '../../lib/names.ts';
import { adviceOn } from '../../lib/refusals.ts';
import { showCost, showCount, showSeconds } from '../../lib/show.ts';
import { useNow } from '../../lib/use-now.ts';
import { Facts } from '../../ui/parts.tsx';
import { WhatToDo } from '../../ui/what-to-do.tsx';
import { When } from '../../ui/when.tsx';
import { OutcomeOf } from './outcome.tsx';
import { Receipt } from './receipt.tsx';
import { Spans, StoryEvents, StoryTries } from './story-timeline.tsx';
import { END_WORDS, SOURCE_WORDS, triesOf } from './story-words.ts';

const LINK = 'underline hover:text-accent';

/** All that is known of one request. @param soFar tokens of a running reply, as the feed tells them. */
export function Story({ story, soFar }: { story: RequestDetail; soFar: number | null }) {
  const keyName = useKeyNames();
  const accountName = useAccountNames();
  const isRunning = story.outcome === 'running';
  const tries = triesOf(story);
  return (
    <div className="flex flex-col gap-6">
      <div className="flex flex-col gap-3">
        <p className="text-base">
          <OutcomeOf row={story} />
        </p>
        <p>
          {isRunning ? (
            <Running story={story} soFar={soFar} />
          ) : story.refusal === null ? (
            story.end_reason !== null && END_WORDS[story.end_reason]
          ) : (
            <Refused code={story.refusal} />
          )}
        </p>
        <Spans story={story} />
      </div>
      <Part title="The call">
        <Facts
          facts={[
            [story.refusal === null ? 'Accepted' : 'Refused', <When key="at" time={story.accepted_at} />],
            [
              'Ended',
              story.ended_at !== null && story.ended_at !== story.accepted_at && (
                <When key="at" time={story.ended_at} />
              ),
            ],
            [
              'Key',
              <Link key="key" to="/requests" search={{ key: story.key }} className={LINK}>
                {keyName(story.key)}
              </Link>,
            ],
            ['Account', accountName(story.account)],
            ['Model', story.model],
            [
              'Upstream',
              story.upstream !== null &&
                `${story.upstream}${story.attempts !== null && story.attempts > 1 ? `, after ${story.attempts} tries` : ''}`,
            ],
            ['Delivery', story.sse !== null && (story.sse ? 'Streamed' : 'In one piece')],
            ['Body', story.body_bytes !== null && `${showCount(story.body_bytes)} bytes`],
            [
              'Retry',
              story.retry_count !== null && story.retry_count > 0 && `the client’s ${story.retry_count}.`,
            ],
            ['Served by', `instance ${story.instance}`],
          ]}
        />
      </Part>
      {tries.length > 1 && (
        <Part title="Tries">
          <StoryTries tries={tries} />
        </Part>
      )}
      {story.usage_source !== null && (
        <Part title="Tokens and cost">
          <Facts
            facts={[
              [
                'Input',
                story.input_tokens !== null &&
                  `${showCount(story.input_tokens)}${story.cached_tokens ? `, ${showCount(story.cached_tokens)} of them cached` : ''}`,
              ],
              [
                'Output',
                story.output_tokens !== null &&
                  `${showCount(story.output_tokens)}${story.reasoning_tokens ? `, ${showCount(story.reasoning_tokens)} of them reasoning` : ''}`,
              ],
              ['Source', SOURCE_WORDS[story.usage_source]],
              [
                'Cost',
                story.cost_microusd === null
                  ? 'Not known: the model has no price.'
                  : `${showCost(story.cost_microusd)}${story.price_version === null ? '' : `, by version ${story.price_version} of the model’s price`}`,
              ],
            ]}
          />
        </Part>
      )}
      {story.hold_tokens !== null && (
        <Part title={isRunning ? 'Held for it' : 'Was held for it'}>
          <p>
            {showCount(story.hold_tokens)} tokens
            {story.hold_cost_microusd !== null && ` and ${showCost(story.hold_cost_microusd)}`}.{' '}
            {isRunning
              ? 'It counts as spent until the call ends.'
              : story.end_reason === 'abandoned'
                ? 'It stays charged.'
                : 'What it did not use was free again at its end.'}
          </p>
        </Part>
      )}
      {story.quotas.length > 0 && (
        <Part title="Quotas it counts against">
          <Quotas quotas={story.quotas} />
        </Part>
      )}
      <Part
        title="In the log"
        more={
          <Link to="/audit" search={{ request: story.request }} className={LINK}>
            Open in the event log
          </Link>
        }
      >
        <StoryEvents story={story} />
      </Part>
      {!isRunning && (
        <Part
          title="Receipt"
          more={
            <Link to="/audit/receipt" className={LINK}>
              Check a receipt
            </Link>
          }
        >
          <p className="mb-2">
            A file that proves, to anybody and without this server, that these events stand in the log as they
            are shown. Of a call that has just ended it takes a few seconds, until a checkpoint covers it.
          </p>
          <Receipt request={story.request} />
        </Part>
      )}
    </div>
  );
}

function Part({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }) {
  return (
    <section>
      <div className="mb-2 flex items-baseline justify-between gap-3">
        <h3 className="font-semibold">{title}</h3>
        {more !== undefined && <span className="text-xs">{more}</span>}
      </div>
      {children}
    </section>
  );
}

function Running({ story, soFar }: { story: RequestDetail; soFar: number | null }) {
  const ms = useNow() - Date.parse(story.accepted_at);
  return (
    <>
      It runs for {showSeconds(ms)}
      {soFar !== null && `, and ${showCount(soFar)} tokens went through so far`}.
    </>
  );
}

function Refused({ code }: { code: string }) {
  const advice = adviceOn(code);
  return (
    <>
      {advice.why} <code className="font-mono text-xs text-muted">{code}</code>
      <br />
      <WhatToDo advice={advice} />
    </>
  );
}

function Quotas({ quotas }: { quotas: readonly RequestQuota[] }) {
  return (
    <ul className="flex flex-col gap-2">
      {quotas.map(({ scope, meter, window, limit, used, reserved: held, to }) => (
        <li key={`${scope} ${meter} ${window}`}>
          <div className="flex flex-wrap justify-between gap-x-3">
            <span>
              {showAmount(meter, limit, showCount)} {METERS[meter].format === 'count' && METERS[meter].name}{' '}
              {WINDOW_WORDS[window]}, of the {scope}
            </span>
            <span className="text-muted">
              {showAmount(meter, used, showCount)} used, {showAmount(meter, held, showCount)} held
            </span>
          </div>
          <p className="text-xs text-muted">
            Window until <When time={to} />
          </p>
        </li>
      ))}
    </ul>
  );
}
