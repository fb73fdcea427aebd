import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useAddressChange } from '../../lib/use-address-change.ts';
import { Loaded } from '../../ui/loaded.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card, Empty } from '../../ui/parts.tsx';
import { stateQuery } from './proof-queries.ts';
import { Sections } from './sections.tsx';
import { StateForm } from './state-form.tsx';
import { StateResult } from './state-result.tsx';

/** What an account, a key or a plan was at a place in the log. */
export function StatePage() {
  const search = useSearch({ from: '/inside/audit/state' });
  const change = useAddressChange({ replace: false });
  const isAsked = search.account !== undefined || search.key !== undefined || search.plan !== undefined;
  const query = useQuery({ ...stateQuery(search), enabled: isAsked });
  return (
    <>
      <PageHead
        title="As of"
        about="An account, a key or a plan as it was then: made from its events up to there, and from nothing else."
      />
      <Sections />
      <div className="flex flex-col gap-4">
        <Card>
          <StateForm key={JSON.stringify(search)} search={search} onShow={change} />
        </Card>
        {isAsked ? (
          <Loaded query={query} title="The state could not be loaded" height="h-72">
            {(then) => <StateResult then={then} search={search} />}
          </Loaded>
        ) : (
          <Card>
            <Empty icon="clock" title="Choose what and when">
              <p>
                A position is the number of an event in the log. Without a position or a time, it is as of
                now.
              </p>
            </Empty>
          </Card>
        )}
        <p className="text-xs text-muted">
          Each time that this is asked for, it is put down in the log who did.
        </p>
      </div>
    </>
  );
}
