import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { matches } from '#server/contract/filter.ts';
import type { RequestFilter, RequestDetail } from '#server/contract/requests.ts';
import { ApiError } from '../../lib/api.ts';
import { useFrames } from '../../lib/use-feed.ts';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Empty, Waiting } from '../../ui/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { storyQuery } from './queries.ts';
import { Story } from './story.tsx';

/** The tables follow the log within moments. */
const ENDING_LOOK_MS = 400;
/**
 * A running call that the feed does not tell of, since the filter leaves it out, or may have told of in what
 * was missed.
 */
const UNHEARD_LOOK_MS = 3_000;

type StoryDialogProps = {
  request: string;
  /** What the feed tells of. */ filter: RequestFilter;
  onClose: () => void;
};

/** One request from beginning to end; one that runs goes on while it is looked at. */
export function StoryDialog({ request, filter, onClose }: StoryDialogProps) {
  const [hasEnded, setEnded] = useState(false);
  const [hasMissed, setMissed] = useState(false);
  const [tokens, setTokens] = useState<number | null>(null);
  const lookAgain = (story: RequestDetail | undefined): number | false => {
    if (story?.outcome !== 'running') return false;
    if (hasEnded) return ENDING_LOOK_MS;
    return matches(filter, story) && !hasMissed ? false : UNHEARD_LOOK_MS;
  };
  const { data, error, refetch } = useQuery({
    ...storyQuery(request),
    refetchInterval: ({ state }) => lookAgain(state.data),
  });
  useFrames((frames) => {
    for (const frame of frames) {
      if (frame.type === 'gap') setMissed(true);
      if (!('request' in frame) || frame.request !== request) continue;
      if (frame.type === 'progress') setTokens(frame.output_tokens);
      else if (frame.type === 'settled') {
        setEnded(true);
        void refetch();
      }
    }
  });
  const isUnknown = error instanceof ApiError && error.status === 404;
  return (
    <Dialog
      onClose={onClose}
      shape="side"
      title={
        <span className="flex flex-wrap items-center gap-x-2">
          Request <Copyable text={request} what="the id of the request" />
        </span>
      }
    >
      {data ? (
        <Story story={data} soFar={tokens} />
      ) : isUnknown ? (
        <Empty icon="search" title="No such request is known">
          <p>{error.message}</p>
          <p className="mt-2">
            Calls that were refused before a key was known (401), or that could not be read (400, 413), leave
            no record. A call of another account is not shown either.
          </p>
        </Empty>
      ) : error ? (
        <Problem error={error} title="The request could not be loaded" onRetry={() => void refetch()} />
      ) : (
        <Waiting height="h-96" label="Loading the request" />
      )}
    </Dialog>
  );
}
