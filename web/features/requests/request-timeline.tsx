import { Link } from '@tanstack/react-router';
import type { Attempt } from '#db/events/upstream-events.ts';
import type { RequestDetail } from '#server/contract/requests.ts';
import { showCount, showDuration } from '../../lib/format/show.ts';
import { attemptLabel } from '../../lib/format/attempts.ts';
import { When } from '../../ui/when.tsx';
import { describeEvent } from './request-words.ts';

/** The duration split into time to first token and reply. */
export function Spans({ detail: { first_byte_ms, duration_ms, sse } }: { detail: RequestDetail }) {
  if (duration_ms === null) return null;
  const waitMs = Math.min(first_byte_ms ?? duration_ms, duration_ms);
  const replyMs = duration_ms - waitMs;
  const share = duration_ms === 0 ? 1 : waitMs / duration_ms;
  return (
    <div>
      <div aria-hidden="true" className="flex h-2.5 gap-px overflow-hidden rounded-full">
        <div className="bg-reserved" style={{ flexGrow: Math.max(0.01, share) }} />
        {replyMs > 0 && <div className="bg-accent" style={{ flexGrow: Math.max(0.01, 1 - share) }} />}
      </div>
      <dl className="mt-1.5 flex flex-wrap justify-between gap-x-4 text-xs">
        <div className="flex items-center gap-1.5">
          <dt className="flex items-center gap-1.5 text-muted">
            <span aria-hidden="true" className="size-2 rounded-full bg-reserved" />
            {first_byte_ms === null ? 'No reply' : 'Time to first token'}
          </dt>
          <dd>{showDuration(waitMs)}</dd>
        </div>
        {first_byte_ms !== null && (
          <div className="flex items-center gap-1.5">
            <dt className="flex items-center gap-1.5 text-muted">
              <span aria-hidden="true" className="size-2 rounded-full bg-accent" />
              {sse === false ? 'Reply' : 'Streaming'}
            </dt>
            <dd>{showDuration(replyMs)}</dd>
          </div>
        )}
        <div className="flex gap-1.5">
          <dt className="text-muted">Duration</dt>
          <dd>{showDuration(duration_ms)}</dd>
        </div>
      </dl>
    </div>
  );
}

/** The attempts at upstreams in order. */
export function AttemptList({ attempts }: { attempts: readonly Attempt[] }) {
  return (
    <ol aria-label="Attempts" className="flex flex-col gap-1">
      {attempts.map(({ upstream, outcome, duration_ms: ms }, index) => (
        <li key={index} className="flex flex-wrap items-baseline gap-x-2">
          <span className="text-muted">{index + 1}</span>
          <span className="font-medium wrap-anywhere">{upstream}</span>
          <span className={outcome === 'completed' ? '' : 'text-warn'}>{attemptLabel(outcome)}</span>
          <span className="ml-auto text-xs text-muted">{showDuration(ms)}</span>
        </li>
      ))}
    </ol>
  );
}

/** The request's events in order. */
export function EventList({ detail }: { detail: RequestDetail }) {
  const beganMs = Date.parse(detail.events[0]?.at ?? detail.accepted_at);
  return (
    <>
      <ol className="border-l-2 border-line">
        {detail.events.map((event) => (
          <li key={event.position} className="relative pb-4 pl-4 last:pb-0">
            <span
              aria-hidden="true"
              className="absolute top-1.5 -left-[5px] size-2 rounded-full bg-line-strong"
            />
            <div className="flex flex-wrap items-baseline justify-between gap-x-3">
              <code className="font-mono text-xs">{event.type}</code>
              <span className="text-xs text-muted">
                {event.at === detail.events[0]?.at ? (
                  <When time={event.at} />
                ) : (
                  `+ ${showDuration(Date.parse(event.at) - beganMs)}`
                )}{' '}
                ·{' '}
                <Link to="/audit" search={{ at: event.position }} className="underline hover:text-ink">
                  position {showCount(event.position)}
                </Link>
              </span>
            </div>
            <p>{describeEvent(event, detail)}</p>
          </li>
        ))}
      </ol>
      {!detail.has_all_events && (
        <p className="mt-2 text-xs text-muted">
          Some events are not shown because they are archived or far apart in the log.
        </p>
      )}
    </>
  );
}
