import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { limitTitle, showAmount } from '../../lib/format/limits.ts';
import type { RequestDetail, RequestQuota } from '#server/contract/requests.ts';
import { useAccountNames, useKeyNames } from '../../lib/api/names.ts';
import { adviceOn } from '../../lib/format/advice.ts';
import { showCost, showCount, showSeconds } from '../../lib/format/show.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { Button } from '../../ui/button.tsx';
import { Facts } from '../../ui/layout/parts.tsx';
import { AdviceText } from '../../ui/advice-text.tsx';
import { When } from '../../ui/when.tsx';
import { OutcomeOf } from './outcome.tsx';
import { Receipt } from './receipt.tsx';
import { Spans, EventList, AttemptList } from './request-timeline.tsx';
import { END_WORDS, SOURCE_WORDS, attemptsOf } from './request-words.ts';

const LINK = 'underline hover:text-accent';

type RequestDetailProps = {
  detail: RequestDetail;
  /** Output tokens of a running reply, from the live feed. */ soFar: number | null;
  /** Opens the form that corrects its charge; null if there is nothing to correct. */
  onAdjust: (() => void) | null;
};

export function RequestDetailView({ detail, soFar, onAdjust }: RequestDetailProps) {
  const keyName = useKeyNames();
  const accountName = useAccountNames();
  const isRunning = detail.outcome === 'running';
  const attempts = attemptsOf(detail);
  return (
    <div className="flex flex-col gap-6">
      <div className="flex flex-col gap-3">
        <p className="text-base">
          <OutcomeOf row={detail} />
        </p>
        <p>
          {isRunning ? (
            <Running detail={detail} soFar={soFar} />
          ) : detail.error_code === null ? (
            detail.end_reason !== null && END_WORDS[detail.end_reason]
          ) : (
            <Rejected code={detail.error_code} />
          )}
        </p>
        <Spans detail={detail} />
      </div>
      <Part title="Request">
        <Facts
          facts={[
            [
              detail.error_code === null ? 'Accepted' : 'Rejected',
              <When key="at" time={detail.accepted_at} />,
            ],
            [
              'Ended',
              detail.ended_at !== null && detail.ended_at !== detail.accepted_at && (
                <When key="at" time={detail.ended_at} />
              ),
            ],
            [
              'Key',
              <Link key="key" to="/requests" search={{ key: detail.key }} className={LINK}>
                {keyName(detail.key)}
              </Link>,
            ],
            ['Account', accountName(detail.account)],
            ['Model', detail.model],
            [
              'Upstream',
              detail.upstream !== null && upstreamText(detail.upstream, detail.attempt_count ?? 1),
            ],
            ['Response', detail.sse !== null && (detail.sse ? 'Streamed' : 'Not streamed')],
            ['Request body', detail.body_bytes !== null && `${showCount(detail.body_bytes)} bytes`],
            [
              'Client retry',
              detail.retry_count !== null && detail.retry_count > 0 && `Number ${detail.retry_count}`,
            ],
            ['Instance', detail.instance],
          ]}
        />
      </Part>
      {attempts.length > 1 && (
        <Part title="Attempts">
          <AttemptList attempts={attempts} />
        </Part>
      )}
      {detail.usage_source !== null && (
        <Part title="Tokens and cost">
          <Facts
            facts={[
              ['Input', withPart(detail.input_tokens, detail.cache_read_tokens, 'cached')],
              ['Output', withPart(detail.output_tokens, detail.reasoning_tokens, 'reasoning')],
              ['Usage source', SOURCE_WORDS[detail.usage_source]],
              [
                'Cost',
                detail.cost_nanousd === null
                  ? 'No price set'
                  : [
                      showCost(detail.cost_nanousd),
                      ...(detail.price_version === null ? [] : [`(price version ${detail.price_version})`]),
                    ].join(' '),
              ],
            ]}
          />
        </Part>
      )}
      {detail.hold_tokens !== null && (
        <Part title={isRunning ? 'Reserved' : 'Reservation'}>
          <p>
            {showCount(detail.hold_tokens)} tokens
            {detail.hold_cost_nanousd !== null && ` and ${showCost(detail.hold_cost_nanousd)}`}.{' '}
            {isRunning
              ? 'Counts against the quota until the request ends.'
              : detail.end_reason === 'abandoned'
                ? 'Charged, because its server crashed: an estimate.'
                : 'The unused part was released at the end.'}
          </p>
        </Part>
      )}
      {detail.quotas.length > 0 && (
        <Part title="Quotas">
          {onAdjust && (
            <div className="mb-3">
              <Button icon="bars" onClick={onAdjust}>
                Adjust usage
              </Button>
            </div>
          )}
          <Quotas quotas={detail.quotas} />
        </Part>
      )}
      <Part
        title="Events"
        more={
          <Link to="/audit" search={{ request: detail.request }} className={LINK}>
            View in audit log
          </Link>
        }
      >
        <EventList detail={detail} />
      </Part>
      {!isRunning && (
        <Part
          title="Receipt"
          more={
            <Link to="/audit/receipt" className={LINK}>
              Verify a receipt
            </Link>
          }
        >
          <p className="mb-2">
            A signed file that proves that these events are recorded in the log. Available within seconds of
            the end of the request.
          </p>
          <Receipt request={detail.request} />
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

/** An amount with a named part: "1,200 (800 cached)". */
function withPart(amount: number | null, part: number | null, name: string): string | false {
  if (amount === null) return false;
  return part ? `${showCount(amount)} (${showCount(part)} ${name})` : showCount(amount);
}

function Running({ detail, soFar }: { detail: RequestDetail; soFar: number | null }) {
  const ms = useNow() - Date.parse(detail.accepted_at);
  return (
    <>
      Running for {showSeconds(ms)} {soFar !== null && `, ${showCount(soFar)} output tokens so far`}
    </>
  );
}

function Rejected({ code }: { code: string }) {
  const advice = adviceOn(code);
  return (
    <>
      {advice.why} <code className="font-mono text-xs text-muted">{code}</code>
      <br />
      <AdviceText advice={advice} />
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
              {limitTitle({ meter, window })} of the {scope}: {showAmount(meter, limit, showCount)}
            </span>
            <span className="text-muted">
              {showAmount(meter, used, showCount)} used, {showAmount(meter, held, showCount)} reserved
            </span>
          </div>
          <p className="text-xs text-muted">
            {to === null ? (
              'Never resets'
            ) : (
              <>
                Resets <When time={to} />
              </>
            )}
          </p>
        </li>
      ))}
    </ul>
  );
}

const upstreamText = (upstream: string, attempts: number): string =>
  attempts > 1 ? `${upstream} (${attempts} attempts)` : upstream;
