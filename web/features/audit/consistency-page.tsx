import { useQuery } from '@tanstack/react-query';
import type { Checks } from '#server/contract/audit.ts';
import { showShort } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { CheckResult, CheckRunning } from './check-result.tsx';
import { checksQuery } from './proof-queries.ts';
import { Sections } from './sections.tsx';
import { useCheck } from './use-check.ts';
import { useNames } from './use-names.ts';

/** Compares the projection tables with a replay of the event log. */
export function ConsistencyPage() {
  const query = useQuery(checksQuery);
  return (
    <>
      <PageHead
        title="Consistency check"
        about="Rebuilds the dashboard’s tables from the event log and compares them row by row."
      />
      <Sections />
      <Loaded query={query} title="Couldn’t load checks">
        {(checks) => <ConsistencyChecks checks={checks} />}
      </Loaded>
    </>
  );
}

const ABOUT: Readonly<Record<string, string>> = {
  requests: 'One row per request.',
  usage: 'Requests, tokens and cost per minute, hour and day.',
  quotas: 'Used and reserved amounts per quota window.',
  directory: 'Accounts, keys, plans and prices.',
};

function ConsistencyChecks({ checks }: { checks: Checks }) {
  const check = useCheck();
  const { member } = useNames();
  const isLong = checks.head > checks.events_max;
  return (
    <div className="flex flex-col gap-4">
      {isLong && (
        <Card title="Command line">
          <p className="mb-2">
            This log has more than {showShort(checks.events_max)} events. Run the check on the server instead:
          </p>
          <CommandLine command="npm run -s daybook -- audit diff" />
        </Card>
      )}
      {checks.projections.map((name) => {
        const newest =
          check.result?.target === name
            ? check.result
            : checks.latest.find(({ target: what }) => what === name);
        const isRunning = check.what === name;
        return (
          <Card
            key={name}
            title={<code className="font-mono">{name}</code>}
            actions={
              !isLong && (
                <Button
                  icon="refresh"
                  disabled={check.what !== null}
                  onClick={() => check.run(name)}
                  aria-label={`Run check of ${name}`}
                >
                  Run check
                </Button>
              )
            }
          >
            <div className="flex flex-col gap-3">
              <p className="text-muted">{ABOUT[name]}</p>
              {isRunning ? (
                <CheckRunning done={check.done} of={check.of} onCancel={check.cancel} />
              ) : newest ? (
                <CheckResult check={newest} memberName={member} />
              ) : (
                <p>Not checked since this server started.</p>
              )}
            </div>
          </Card>
        );
      })}
      <div role="status">
        <FormProblem error={check.error} />
      </div>
      <p className="text-xs text-muted">
        A check stops when you leave this page, and is recorded in the audit log. Results are kept in the
        server’s memory until it restarts. Limit enforcement never uses these tables.
      </p>
    </div>
  );
}
