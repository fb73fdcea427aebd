import { useQuery } from '@tanstack/react-query';
import type { Proof } from '#server/contract/audit.ts';
import { showCount, showCounted } from '../../lib/show.ts';
import { useNow } from '../../lib/use-now.ts';
import { Loaded } from '../../ui/loaded.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card, Empty, Figure } from '../../ui/parts.tsx';
import { Ago } from '../../ui/when.tsx';
import { Checkpoints } from './checkpoints.tsx';
import { proofQuery } from './proof-queries.ts';
import { Keys, Lost, NewestCheckpoint, Witnesses } from './proof-parts.tsx';
import { Sections } from './sections.tsx';
import { VerifyCard } from './verify-card.tsx';

/** A checkpoint is published every ten seconds while there is anything new. */
const LATE_MS = 60_000;

/** How much of the log is proved, by whom, and the way to check it. */
export function ProofPage() {
  const query = useQuery(proofQuery);
  return (
    <>
      <PageHead
        title="Proof"
        about="Signed checkpoints say what the log held. Whoever keeps one finds out whatever is changed, added or cut off before it."
      />
      <Sections />
      <Loaded query={query} title="The proof could not be loaded" height="h-[40rem]">
        {(proof) => (
          <div className="flex flex-col gap-4">
            <Late proof={proof} />
            <Card flush>
              <Figures proof={proof} />
            </Card>
            {proof.latest === null ? (
              <Card>
                <Empty icon="shield" title="No checkpoint has been published yet">
                  <p>
                    The worker publishes the first one within seconds of the first event. Nothing of the log
                    is proved to anybody else until then.
                  </p>
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
      No checkpoint has been published for more than a minute although there are newer events. Is a worker
      running? Its own log says what keeps it from signing.
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
        note={log.first > 1 ? `those before ${showCount(log.first)} are archived` : 'all in the database'}
      />
      <Figure
        label="Covered by a checkpoint"
        value={
          uncovered.events === 0 && log.head > 0
            ? 'all of them'
            : `up to ${showCount(log.head - uncovered.events)}`
        }
        note={
          uncovered.events === 0
            ? 'nothing is newer'
            : `all but the newest ${showCounted(uncovered.events, 'event')}`
        }
      />
      <Figure
        label="Newest checkpoint"
        value={newest === null ? 'none' : <Ago time={newest.published_at} />}
        note={newest === null ? 'published by the worker' : `at position ${showCount(newest.size)}`}
      />
      <Figure
        label="Witnesses"
        value={showCount(cosigning)}
        note={cosigning === 0 ? 'nobody else keeps watch' : 'have cosigned this history'}
      />
    </div>
  );
}
