import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { matchesCall } from '#db/fold/call-filter.ts';
import type { Change } from '#server/contract/keys.ts';
import type { RequestFilter, RequestDetail } from '#server/contract/requests.ts';
import { ApiError } from '../../lib/api/api.ts';
import { type Attributed, KIND_NAMES } from '../../lib/api/attribution.ts';
import { useAccountNames } from '../../lib/api/names.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { useFrames } from '../../lib/feed/use-feed.ts';
import { CorrectRequest } from '../../ui/adjust/correct-request.tsx';
import { EraseAttributed } from '../../ui/attribution/erase.tsx';
import { ChangeSummary } from '../../ui/change.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';
import { Empty, Waiting } from '../../ui/layout/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { requestQuery } from './queries.ts';
import { RequestDetailView } from './request-detail.tsx';

/** Polling interval after the end was seen, until the projections include it. */
const ENDING_LOOK_MS = 400;
/** Polling interval for a running request that the feed does not cover, because of the filter or a gap. */
const UNHEARD_LOOK_MS = 3_000;

type RequestDialogProps = {
  request: string;
  /** The filter of the open feed. */ filter: RequestFilter;
  onClose: () => void;
};

/** Details of one request. A running request is updated live. */
export function RequestDialog({ request, filter, onClose }: RequestDialogProps) {
  const [hasEnded, setEnded] = useState(false);
  const [hasMissed, setMissed] = useState(false);
  const [tokens, setTokens] = useState<number | null>(null);
  const lookAgain = (detail: RequestDetail | undefined): number | false => {
    if (detail?.outcome !== 'running') return false;
    if (hasEnded) return ENDING_LOOK_MS;
    return matchesCall(filter, detail) && !hasMissed ? false : UNHEARD_LOOK_MS;
  };
  const { data, error, refetch } = useQuery({
    ...requestQuery(request),
    refetchInterval: ({ state }) => lookAgain(state.data),
  });
  useFrames((frames) => {
    for (const frame of frames) {
      if (frame.type === 'gap') setMissed(true);
      if (!('request' in frame) || frame.request !== request) continue;
      if (frame.type === 'progress') setTokens(frame.output_tokens);
      else if (frame.type === 'settled' || frame.type === 'corrected') {
        setEnded(true);
        void refetch();
      }
    }
  });
  const isAdministrator = useIsAdministrator();
  const [isAdjusting, setAdjusting] = useState(false);
  const [erasing, setErasing] = useState<Attributed | null>(null);
  const [made, setMade] = useState<{ done: string; change: Change } | null>(null);
  const accountName = useAccountNames();
  const mayCorrect = isAdministrator && data?.end_reason != null;
  const isUnknown = error instanceof ApiError && error.status === 404;
  const close = (): void => setAdjusting(false);
  if (data && isAdjusting)
    return (
      <Dialog key="adjust" onClose={close} shape="side" title={`Correct request ${request}`}>
        <CorrectRequest
          detail={data}
          back={close}
          onDone={(change) => {
            setMade({ done: 'Request corrected.', change });
            close();
          }}
        />
      </Dialog>
    );
  if (erasing)
    return (
      <Dialog
        key="erase"
        onClose={() => setErasing(null)}
        shape="side"
        title={`Erase ${KIND_NAMES[erasing.kind]}?`}
      >
        <EraseAttributed
          attributed={erasing}
          accountName={accountName(erasing.account)}
          onBack={() => setErasing(null)}
          onDone={(change) => {
            setMade({ done: `The value of the ${KIND_NAMES[erasing.kind]} is erased.`, change });
            setErasing(null);
          }}
        />
      </Dialog>
    );
  return (
    <Dialog
      onClose={onClose}
      shape="side"
      title={
        <span className="flex flex-wrap items-center gap-x-2">
          Request <Copyable text={request} what="request ID" />
        </span>
      }
    >
      {data ? (
        <>
          {made && (
            <p role="status" className="mb-5 rounded-lg bg-accent-soft px-3 py-2">
              <ChangeSummary {...made} />
            </p>
          )}
          <RequestDetailView
            detail={data}
            soFar={tokens}
            onCorrect={mayCorrect ? () => setAdjusting(true) : null}
            onErase={setErasing}
          />
        </>
      ) : isUnknown ? (
        <Empty icon="search" title="Request not found">
          <p>{error.message}</p>
          <p className="mt-2">
            Requests without a valid key (401) and invalid requests (400, 413) are not recorded. Requests of
            other accounts are not shown.
          </p>
        </Empty>
      ) : error ? (
        <Problem error={error} title="Couldn’t load the request" onRetry={() => void refetch()} />
      ) : (
        <Waiting height="h-96" label="Loading request" />
      )}
    </Dialog>
  );
}
