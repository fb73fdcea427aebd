import { useQuery } from '@tanstack/react-query';
import type { Proof } from '#server/contract/audit.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { useNow } from '../../lib/hooks/use-now.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty, Figure } from '../../ui/layout/parts.tsx';
import { Ago } from '../../ui/when.tsx';
import { Checkpoints } from './checkpoints.tsx';
import { proofQuery } from './proof-queries.ts';
import { Keys, Lost, NewestCheckpoint, Witnesses } from './proof-parts.tsx';
import { Sections } from './sections.tsx';
import { VerifyCard } from './verify-card.tsx';

/** Checkpoints are published every ten seconds while there are new events. */
const LATE_MS = 60_000;

/** Checkpoints, witnesses and verification of the event log. */
export function ProofPage() {
  const query = useQuery(proofQuery);
  return (
    <>
      <PageHead
        title="Integrity"
        about="Signed checkpoints make any later change to the event log detectable."
      />
      <Sections />
      <Loaded query={query} title="Couldn’t load checkpoints" height="h-[40rem]">
        {(proof) => (
          <div className="flex flex-col gap-4">
            <Late proof={proof} />
            <Card flush>
              <Figures proof={proof} />
            </Card>
            {proof.latest === null ? (
              <Card>
                <Empty icon="shield" title="No checkpoints yet">
                  <p>The worker publishes the first checkpoint within seconds of the first event.</p>
                </Empty>
              </Card>
            ) : (
              <NewestCheckpoint proof={proof} newest={proof.latest} />
            )}
            <VerifyCard />
            <Witnesses proof={proof} />
            <Keys keys={proof.keys} />
            <Lost lost={proof.lost} />
            {proof.latest !== null && <Checkpoints newest={proof.latest} />}
          </div>
        )}
      </Loaded>
    </>
  );
}

function Late({ proof: { uncovered } }: { proof: Proof }) {
  const now = useNow(5_000);
  if (uncovered.since === null || now - Date.parse(uncovered.since) < LATE_MS) return null;
  return (
    <p role="alert" className="rounded-lg border border-warn bg-warn-soft px-4 py-3 text-warn">
      No checkpoint was published for more than a minute, although there are newer events. Check that a worker
      is running; its log has the reason.
    </p>
  );
}

function Figures({ proof: { log, latest: newest, uncovered, witnesses } }: { proof: Proof }) {
  const cosigning = witnesses.filter(({ size }) => size !== null).length;
  return (
    <div className="grid grid-cols-2 divide-line md:divide-x lg:grid-cols-4">
      <Figure
        label="Events in the log"
        value={showCount(log.head)}
        note={log.first > 1 ? `Events before ${showCount(log.first)} are archived` : 'All in the database'}
      />
      <Figure
        label="Covered by checkpoint"
        value={
          uncovered.events === 0 && log.head > 0 ? 'All' : `Up to ${showCount(log.head - uncovered.events)}`
        }
        note={
          uncovered.events === 0
            ? 'No newer events'
            : `${showCounted(uncovered.events, 'newer event')} pending`
        }
      />
      <Figure
        label="Latest checkpoint"
        value={newest === null ? 'None' : <Ago time={newest.published_at} />}
        note={newest === null ? 'Published by the worker' : `Tree size ${showCount(newest.size)}`}
      />
      <Figure
        label="Witnesses"
        value={showCount(cosigning)}
        note={cosigning === 0 ? 'No witness cosigns' : 'Cosigning this log'}
      />
    </div>
  );
}
