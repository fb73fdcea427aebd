import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useSearchChange } from '../../lib/hooks/use-search-change.ts';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';
import { stateQuery } from './proof-queries.ts';
import { Sections } from './sections.tsx';
import { StateForm } from './state-form.tsx';
import { StateResult } from './state-result.tsx';

/** An account, key or plan at a position of the log. */
export function StatePage() {
  const search = useSearch({ from: '/inside/audit/state' });
  const change = useSearchChange({ replace: false });
  const isAsked = search.account !== undefined || search.key !== undefined || search.plan !== undefined;
  const query = useQuery({ ...stateQuery(search), enabled: isAsked });
  return (
    <>
      <PageHead
        title="Point in time"
        about="The state of an account, key or plan at any position, rebuilt from its events."
      />
      <Sections />
      <div className="flex flex-col gap-4">
        <Card>
          <StateForm key={JSON.stringify(search)} search={search} onShow={change} />
        </Card>
        {isAsked ? (
          <Loaded query={query} title="Couldn’t load the state" height="h-72">
            {(then) => <StateResult then={then} search={search} />}
          </Loaded>
        ) : (
          <Card>
            <Empty icon="clock" title="Select a resource">
              <p>A position is the sequence number of an event in the log.</p>
            </Empty>
          </Card>
        )}
        <p className="text-xs text-muted">Every view is recorded in the audit log.</p>
      </div>
    </>
  );
}
