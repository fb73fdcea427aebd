import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { ObservedRejection } from '#db/events/admission.ts';
import { parseSubject, PER } from '#db/limits/subjects.ts';
import { limitTitle } from '#db/limits/titles.ts';
import { showAmount } from '../../lib/format/limits.ts';
import type { RequestDetail, RequestQuota } from '#server/contract/requests.ts';
import { type Attributed, KIND_NAMES, useAttributed } from '../../lib/api/attribution.ts';
import { useAccountNames, useIsOverseer, useKeyNames } from '../../lib/api/names.ts';
import { adviceOn } from '../../lib/format/advice.ts';
import { showCost, showCount, showSeconds } from '../../lib/format/show.ts';
import { SOURCE_WORDS } from '../../lib/format/usage-source.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { AttributedText } from '../../ui/attribution/attributed.tsx';
import { Button } from '../../ui/button.tsx';
import { CopyIcon } from '../../ui/copy.tsx';
import { Facts } from '../../ui/layout/parts.tsx';
import { AdviceText } from '../../ui/advice-text.tsx';
import { Estimate } from '../../ui/estimate.tsx';
import { When } from '../../ui/when.tsx';
import { OutcomeOf } from './outcome.tsx';
import { Receipt } from './receipt.tsx';
import { Corrections } from './request-corrections.tsx';
import { Spans, EventList, AttemptList } from './request-timeline.tsx';
import { attemptsOf, batchOf, endWords, observedOf } from './request-words.ts';

const LINK = 'underline hover:text-accent';

type RequestDetailProps = {
  detail: RequestDetail;
  /** Output tokens of a running reply, from the live feed. */ soFar: number | null;
  /** Opens the form that corrects its figures; null if the viewer can't. */
  onCorrect: (() => void) | null;
  /** Opens the form that erases the value of its end user, its session or a tag. */
  onErase: (of: Attributed) => void;
};

export function RequestDetailView({ detail, soFar, onCorrect, onErase }: RequestDetailProps) {
  const keyName = useKeyNames();
  const accountName = useAccountNames();
  const isRunning = detail.outcome === 'running';
  const attempts = attemptsOf(detail);
  const batch = batchOf(detail);
  const whose = (kind: Attributed['kind'], pseudonym: string): Attributed => ({
    account: detail.account,
    kind,
    pseudonym,
  });
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
            endWords(detail)
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
            ['Route', detail.route],
            [
              'End user',
              detail.end_user !== null && (
                <WhoseLink key="user" of={whose('end_user', detail.end_user)} onErase={onErase} />
              ),
            ],
            [
              'Session',
              detail.session !== null && (
                <WhoseLink key="session" of={whose('session', detail.session)} onErase={onErase} />
              ),
            ],
            [
              'Tags',
              detail.tags.length > 0 && (
                <span key="tags" className="flex flex-wrap gap-x-3">
                  {detail.tags.map((tag) => (
                    <WhoseLink key={tag} of={whose('tag', tag)} onErase={onErase} />
                  ))}
                </span>
              ),
            ],
            [
              'Upstream',
              detail.upstream !== null && upstreamText(detail.upstream, detail.attempt_count ?? 1),
            ],
            [
              'Response',
              detail.sse !== null &&
                (batch !== null ? 'In the output of a batch' : detail.sse ? 'Streamed' : 'Not streamed'),
            ],
            [
              'Batch',
              batch !== null && (
                <code key="batch" className="font-mono text-xs break-all">
                  {batch}
                </code>
              ),
            ],
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
              ['Input', detail.input_tokens !== null && <InputTokens key="input" detail={detail} />],
              [
                'Output',
                detail.output_tokens !== null && (
                  <Estimate key="output" source={detail.usage_source}>
                    {withParts(detail.output_tokens, [[detail.reasoning_tokens, 'reasoning']])}
                  </Estimate>
                ),
              ],
              ['Usage source', SOURCE_WORDS[detail.usage_source]],
              [
                detail.upstream_cost_nanousd === undefined ? 'Cost' : 'Charge',
                detail.cost_nanousd === null ? (
                  'No price set'
                ) : (
                  <Estimate key="cost" source={detail.usage_source}>
                    {[
                      showCost(detail.cost_nanousd),
                      ...(detail.price_version === null ? [] : [`(price version ${detail.price_version})`]),
                    ].join(' ')}
                  </Estimate>
                ),
              ],
              [
                'Upstream cost',
                detail.upstream_cost_nanousd != null && (
                  <Estimate key="upstream" source={detail.usage_source}>
                    {showCost(detail.upstream_cost_nanousd)}
                  </Estimate>
                ),
              ],
              ...unpricedOf(detail.events),
            ]}
          />
          {onCorrect && (
            <div className="mt-3">
              <Button icon="bars" onClick={onCorrect}>
                Correct request
              </Button>
            </div>
          )}
        </Part>
      )}
      {detail.corrected !== null && (
        <Part title="Corrections">
          <Corrections detail={detail} />
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
      {detail.observed !== null && (
        <Part title="Observed limits">
          <ObservedLimits rejections={observedOf(detail)} />
        </Part>
      )}
      {detail.quotas.length > 0 && (
        <Part title="Quotas">
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

/** The parts of the usage that had no price and are in no cost, such as web searches. */
function unpricedOf(events: RequestDetail['events']): [string, string][] {
  const parts = events.find(({ type }) => type === 'request.settled')?.['unpriced'];
  return Array.isArray(parts) ? [['Without a price', parts.join(', ').replaceAll('_', ' ')]] : [];
}

/** An amount with its named parts that are not zero: "1,200 (800 cached, 100 written to the cache)". */
function withParts(amount: number, parts: readonly (readonly [part: number | null, name: string])[]): string {
  const shown = parts.flatMap(([part, name]) => (part ? [`${showCount(part)} ${name}`] : []));
  return shown.length === 0 ? showCount(amount) : `${showCount(amount)} (${shown.join(', ')})`;
}

const InputTokens = ({ detail }: { detail: RequestDetail }) => (
  <Estimate source={detail.usage_source}>
    {withParts(detail.input_tokens ?? 0, [
      [detail.cache_read_tokens, 'cached'],
      [detail.cache_write_tokens, 'written to the cache'],
    ])}
  </Estimate>
);

/** An end user, a session or a tag, with a link to the requests that have it too. */
function WhoseLink({ of, onErase }: { of: Attributed; onErase: (of: Attributed) => void }) {
  const name = useAttributed(of);
  const { account, kind, pseudonym } = of;
  const isOverseer = useIsOverseer();
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <Link
        to="/requests"
        search={{ [kind]: pseudonym, ...(isOverseer ? { account } : {}) }}
        className={`min-w-0 wrap-anywhere ${LINK}`}
      >
        <AttributedText pseudonym={pseudonym} name={name} />
      </Link>
      <CopyIcon text={pseudonym} what={`pseudonym of the ${KIND_NAMES[kind]}`} />
      {name?.value != null && (
        <button
          type="button"
          onClick={() => onErase(of)}
          className="text-xs text-muted underline hover:text-danger"
          aria-label={`Erase ${KIND_NAMES[kind]}`}
        >
          Erase
        </button>
      )}
    </span>
  );
}

function Running({ detail, soFar }: { detail: RequestDetail; soFar: number | null }) {
  const ms = useNow() - Date.parse(detail.accepted_at);
  const what = batchOf(detail) === null ? 'Running' : 'Waiting for the output of its batch';
  return (
    <>
      {what} for {showSeconds(ms)} {soFar !== null && `, ${showCount(soFar)} output tokens so far`}
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

/** The observed limits that would have rejected it. */
function ObservedLimits({ rejections }: { rejections: readonly ObservedRejection[] }) {
  return (
    <>
      <p className="mb-2">
        These limits would have rejected the request, were they enforced. It isn’t charged to them.
      </p>
      <ul className="flex flex-col gap-2">
        {rejections.map(({ subject, meter, window, limit, needed, free }) => (
          <li key={`${subject} ${meter} ${window}`} className="flex flex-wrap justify-between gap-x-3">
            <span>
              {limitTitle({ meter, window })} of the {whoseNames(subject)}:{' '}
              {showAmount(meter, limit, showCount)}
            </span>
            <span className="text-muted">
              {showAmount(meter, needed, showCount)} needed
              {free === undefined ? ', couldn’t be decided' : `, ${showAmount(meter, free, showCount)} free`}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** "account", "end user" */
const whoseNames = (subject: string): string => {
  const { kind } = parseSubject(subject);
  return kind === 'account' || kind === 'key' ? kind : PER[kind].names[0];
};

const upstreamText = (upstream: string, attempts: number): string =>
  attempts > 1 ? `${upstream} (${attempts} attempts)` : upstream;
