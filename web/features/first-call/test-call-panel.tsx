import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../lib/api/api.ts';
import { showDuration } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Problem } from '../../ui/problem.tsx';
import { adviceFor } from './explain.ts';
import { PROMPT } from './snippets.ts';
import { type Reply, sendTestCall } from './test-call.ts';

type State = { step: 'none' | 'sent' } | { step: 'done'; reply: Reply } | { step: 'failed'; error: ApiError };

/** Sends the request from the browser with the visible secret. */
export function TestCallPanel({
  endpoint,
  model,
  secret,
}: {
  endpoint: string;
  model: string;
  secret: string | null;
}) {
  const [state, setState] = useState<State>({ step: 'none' });
  const [text, setText] = useState('');
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const send = async (withSecret: string): Promise<void> => {
    abort.current?.abort();
    const own = (abort.current = new AbortController());
    setText('');
    setState({ step: 'sent' });
    try {
      const reply = await sendTestCall(
        { endpoint, secret: withSecret, model, prompt: PROMPT, signal: own.signal },
        (word) => setText((before) => before + word),
      );
      setState({ step: 'done', reply });
    } catch (error) {
      if (!own.signal.aborted)
        setState({
          step: 'failed',
          error:
            error instanceof ApiError
              ? error
              : new ApiError('The reply is not valid.', { status: 0, code: 'unreadable' }),
        });
    }
  };
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <Button
          look={secret === null ? 'plain' : 'primary'}
          icon="play"
          busy={state.step === 'sent'}
          disabled={secret === null}
          onClick={() => secret !== null && void send(secret)}
        >
          Send test request
        </Button>
        <p role="status" className="min-w-0 flex-1 basis-56 text-muted">
          {secret === null ? 'Create a key first.' : aboutState(state)}
        </p>
      </div>
      {state.step === 'failed' ? (
        <Failure error={state.error} />
      ) : (
        <div className="min-h-16 rounded-lg border border-line bg-sunken px-3 py-2">
          <p className="text-xs text-muted">Reply</p>
          <p className="break-words whitespace-pre-wrap">{text}</p>
        </div>
      )}
    </div>
  );
}

function aboutState(state: State): string {
  switch (state.step) {
    case 'none':
      return 'Sent from your browser with your new key.';
    case 'sent':
      return 'Sent. Waiting for the reply…';
    case 'done':
      return state.reply.firstWordMs === null
        ? 'Completed. The reply is empty.'
        : `Completed. Time to first token: ${showDuration(state.reply.firstWordMs)}.`;
    case 'failed':
      return 'The request failed.';
  }
}

function Failure({ error }: { error: ApiError }) {
  const advice = adviceFor(error.status, error.code);
  return (
    <div className="flex flex-col gap-1.5">
      <Problem error={error} title="Request failed" />
      {advice !== null && <p>{advice}</p>}
    </div>
  );
}
