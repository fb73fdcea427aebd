import { useQuery } from '@tanstack/react-query';
import type { Checks } from '#server/contract/audit.ts';
import { showShort } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card } from '../../ui/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { CheckResult, CheckRunning } from './check-result.tsx';
import { checksQuery } from './proof-queries.ts';
import { Sections } from './sections.tsx';
import { useCheck } from './use-check.ts';
import { useNames } from './use-names.ts';

/** Whether the tables that lists and figures are read from are as the log says. */
export function ComparisonPage() {
  const query = useQuery(checksQuery);
  return (
    <>
      <PageHead
        title="Comparison"
        about="Lists and figures come from tables that are made from the log. Here they are made once more, and compared row by row."
      />
      <Sections />
      <Loaded query={query} title="The checks could not be loaded">
        {(checks) => <Comparisons checks={checks} />}
      </Loaded>
    </>
  );
}

const ABOUT: Readonly<Record<string, string>> = {
  requests: 'One row for each call, as the list of requests shows them.',
  usage: 'Calls, tokens and cost, by minute, hour and day.',
  quotas: 'What was used and held of each window of a quota.',
  directory: 'Accounts, keys, plans and prices, as they are listed.',
};

function Comparisons({ checks }: { checks: Checks }) {
  const check = useCheck();
  const { member } = useNames();
  const isLong = checks.head > checks.events_max;
  return (
    <div className="flex flex-col gap-4">
      {isLong && (
        <Card title="By the command line">
          <p className="mb-2">
            This log has more than {showShort(checks.events_max)} events. A comparison goes through all of
            them, which is better done beside the server:
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
                  aria-label={`Compare ${name}`}
                >
                  Compare
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
                <p>Not compared yet since this server started.</p>
              )}
            </div>
          </Card>
        );
      })}
      <div role="status">
        <FormProblem error={check.error} />
      </div>
      <p className="text-xs text-muted">
        A comparison runs while this page is open, one at a time on a server, and is put down in the log as a
        reading of it. The results are those of the server process that answers, and are forgotten when it
        ends. Limits never read these tables.
      </p>
    </div>
  );
}
