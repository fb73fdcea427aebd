import { Link } from '@tanstack/react-router';
import type { Attempt } from '#db/events/upstream-events.ts';
import type { RequestDetail } from '#server/contract/requests.ts';
import { showCount, showDuration } from '../../lib/show.ts';
import { tryWords } from '../../lib/try-words.ts';
import { When } from '../../ui/when.tsx';
import { tellEvent } from './story-words.ts';

/** Where the time went: waiting for the first byte, then the reply. */
export function Spans({ story: { first_byte_ms, duration_ms, sse } }: { story: RequestDetail }) {
  if (duration_ms === null) return null;
  const waitMs = Math.min(first_byte_ms ?? duration_ms, duration_ms);
  const replyMs = duration_ms - waitMs;
  const share = duration_ms === 0 ? 1 : waitMs / duration_ms;
  return (
    <div>
      <div aria-hidden="true" className="flex h-2.5 gap-px overflow-hidden rounded-full">
        <div className="bg-held" style={{ flexGrow: Math.max(0.01, share) }} />
        {replyMs > 0 && <div className="bg-accent" style={{ flexGrow: Math.max(0.01, 1 - share) }} />}
      </div>
      <dl className="mt-1.5 flex flex-wrap justify-between gap-x-4 text-xs">
        <div className="flex items-center gap-1.5">
          <dt className="flex items-center gap-1.5 text-muted">
            <span aria-hidden="true" className="size-2 rounded-full bg-held" />
            {first_byte_ms === null ? 'No byte came' : 'Wait for the first byte'}
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
          <dt className="text-muted">In all</dt>
          <dd>{showDuration(duration_ms)}</dd>
        </div>
      </dl>
    </div>
  );
}

/** Where it was sent, one after the other, until one delivered or none was left. */
export function StoryTries({ tries }: { tries: readonly Attempt[] }) {
  return (
    <ol aria-label="Tries" className="flex flex-col gap-1">
      {tries.map(({ upstream, outcome, duration_ms: ms }, index) => (
        <li key={index} className="flex flex-wrap items-baseline gap-x-2">
          <span className="text-muted">{index === 0 ? 'First' : 'Then'}</span>
          <span className="font-medium wrap-anywhere">{upstream}</span>
          <span className={outcome === 'completed' ? '' : 'text-warn'}>{tryWords(outcome)}</span>
          <span className="ml-auto text-xs text-muted">{showDuration(ms)}</span>
        </li>
      ))}
    </ol>
  );
}

/** What the log has of it, in order. */
export function StoryEvents({ story }: { story: RequestDetail }) {
  const beganMs = Date.parse(story.events[0]?.at ?? story.accepted_at);
  return (
    <>
      <ol className="border-l-2 border-line">
        {story.events.map((event) => (
          <li key={event.position} className="relative pb-4 pl-4 last:pb-0">
            <span
              aria-hidden="true"
              className="absolute top-1.5 -left-[5px] size-2 rounded-full bg-line-strong"
            />
            <div className="flex flex-wrap items-baseline justify-between gap-x-3">
              <code className="font-mono text-xs">{event.type}</code>
              <span className="text-xs text-muted">
                {event.at === story.events[0]?.at ? (
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
            <p>{tellEvent(event, story)}</p>
          </li>
        ))}
      </ol>
      {!story.has_all_events && (
        <p className="mt-2 text-xs text-muted">
          Not all of its events are told here: they lie far apart in the log, or in the archive.
        </p>
      )}
    </>
  );
}
