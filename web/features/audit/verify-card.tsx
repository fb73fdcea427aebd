import { useQuery } from '@tanstack/react-query';
import { showShort } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { CheckResult, CheckRunning } from './check-result.tsx';
import { checksQuery } from './proof-queries.ts';
import { useCheck } from './use-check.ts';
import { useNames } from './use-names.ts';

/** Verification by this server, and the command for independent verification. */
export function VerifyCard() {
  const { data } = useQuery(checksQuery);
  const check = useCheck();
  const { member } = useNames();
  const newest = check.result ?? data?.latest.find(({ target: what }) => what === 'log');
  const isLong = data !== undefined && data.head > data.events_max;
  return (
    <Card
      title="Verification"
      actions={
        <Button
          icon="shield"
          disabled={data === undefined || isLong || check.what !== null}
          onClick={() => check.run('log')}
        >
          Verify log
        </Button>
      }
    >
      <div className="flex flex-col gap-3">
        {check.what !== null ? (
          <CheckRunning done={check.done} of={check.of} onCancel={check.cancel} />
        ) : newest ? (
          <CheckResult check={newest} memberName={member} />
        ) : (
          <p>
            {isLong
              ? `This log has more than ${showShort(data.events_max)} events. Verify it on the command line.`
              : 'Not verified since this server started.'}
          </p>
        )}
        <FormProblem error={check.error} />
        <div>
          <p className="mb-1 text-muted">
            This check runs on the server that keeps the log. To verify independently, run this on your own
            machine with a database login and the verifier key:
          </p>
          <CommandLine command="npm run -s audit -- verify --key VERIFIER_KEY" />
        </div>
      </div>
    </Card>
  );
}
