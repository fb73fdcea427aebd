import { Link } from '@tanstack/react-router';
import { ApiError } from '../../lib/api/api.ts';
import { adviceOn } from '../../lib/format/advice.ts';
import { showCost, showCount, showDuration } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Problem } from '../../ui/problem.tsx';
import { AdviceText } from '../../ui/advice-text.tsx';
import type { ChatMessage } from './conversation.ts';
import type { Figures } from './use-figures.ts';

type MessagesProps = {
  messages: readonly ChatMessage[];
  figures: ReadonlyMap<string, Figures>;
  onRetry: (() => void) | null;
};

/** The conversation. Screen readers announce a reply when it is complete. */
export function Messages({ messages, figures, onRetry }: MessagesProps) {
  return (
    <div role="log" aria-label="Conversation" aria-busy={messages.at(-1)?.state === 'running'}>
      <ol className="flex flex-col gap-5">
        {messages.map((turn, index) => (
          <li key={turn.id} className={turn.role === 'user' ? 'ml-auto max-w-[85%]' : 'max-w-full'}>
            <p className="mb-1 text-xs text-muted">{turn.role === 'user' ? 'You' : turn.model}</p>
            {turn.role === 'user' ? (
              <p className="rounded-lg bg-accent-soft px-3 py-2 break-words whitespace-pre-wrap">
                {turn.text}
              </p>
            ) : (
              <Reply
                turn={turn}
                figures={figures.get(turn.request ?? '')}
                onRetry={index === messages.length - 1 ? onRetry : null}
              />
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Reply({
  turn: { text, state, finish, error, request },
  figures,
  onRetry,
}: {
  turn: ChatMessage;
  figures: Figures | undefined;
  onRetry: (() => void) | null;
}) {
  return (
    <div className="flex flex-col gap-2">
      {(text !== '' || state === 'running') && (
        <p className="text-base leading-6 break-words whitespace-pre-wrap">
          {text}
          {state === 'running' && (
            <span
              aria-hidden="true"
              className="ml-0.5 inline-block h-4 w-1.5 translate-y-0.5 bg-accent motion-safe:animate-pulse"
            />
          )}
        </p>
      )}
      {state === 'done' && text === '' && <p className="text-muted">The reply has no text.</p>}
      {state === 'failed' && <Failure error={error} />}
      <div className="flex min-h-8 flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted">
        {state === 'running' && <span>{text === '' ? 'Waiting for the first token…' : 'Streaming…'}</span>}
        {state === 'stopped' && <span>Stopped. Usage up to this point is charged.</span>}
        {finish === 'length' && <span className="text-warn">Stopped at the token limit.</span>}
        {figures && <FiguresOf figures={figures} />}
        {request != null && state !== 'running' && (
          <Link to="/requests" search={{ request }} className="underline hover:text-ink">
            View request
          </Link>
        )}
        {onRetry && state !== 'running' && (
          <Button look="quiet" icon="refresh" className="min-h-6 px-2 text-xs" onClick={onRetry}>
            Retry
          </Button>
        )}
      </div>
    </div>
  );
}

function FiguresOf({
  figures: { input_tokens, output_tokens, cost_nanousd, first_byte_ms, duration_ms },
}: {
  figures: Figures;
}) {
  return (
    <>
      {input_tokens !== undefined && output_tokens !== undefined && (
        <span>
          {showCount(input_tokens)} → {showCount(output_tokens)} tokens
        </span>
      )}
      <span>{cost_nanousd === undefined ? 'No price set' : showCost(cost_nanousd)}</span>
      {first_byte_ms !== undefined && <span>TTFT {showDuration(first_byte_ms)}</span>}
      {duration_ms !== undefined && <span>Duration {showDuration(duration_ms)}</span>}
    </>
  );
}

/** The error response and advice. */
function Failure({ error }: { error: unknown }) {
  const advice = error instanceof ApiError && error.status >= 400 ? adviceOn(error.code) : null;
  return (
    <div className="flex flex-col gap-1.5">
      <Problem
        error={error}
        title={
          error instanceof ApiError && error.status >= 400 && error.status < 500
            ? 'Request rejected'
            : 'Request failed'
        }
      />
      {advice && (
        <p>
          <AdviceText advice={advice} />
        </p>
      )}
    </div>
  );
}
