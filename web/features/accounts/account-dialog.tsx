import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { AccountRow } from '#server/contract/accounts.ts';
import { plansQuery } from '../../lib/plans.ts';
import { useIsAdministrator } from '../../lib/session.ts';
import { showCost, showCount } from '../../lib/show.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { ChangeTold } from '../../ui/change.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { Badge, Facts } from '../../ui/parts.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { When } from '../../ui/when.tsx';
import { accountQuery } from './account-queries.ts';
import { ChangePlan } from './change-plan.tsx';
import { OwnTerms } from './own-terms.tsx';
import { ReinstateAccount, SuspendAccount } from './suspend-account.tsx';
import type { Done } from './use-account-change.ts';

const STEPS = {
  plan: ChangePlan,
  terms: OwnTerms,
  suspend: SuspendAccount,
  reinstate: ReinstateAccount,
} as const;
type Step = keyof typeof STEPS;
const TITLES: Record<Step, (name: string) => string> = {
  plan: (name) => `Plan of ${name}`,
  terms: (name) => `Own terms of ${name}`,
  suspend: (name) => `Suspend ${name}?`,
  reinstate: (name) => `Reinstate ${name}?`,
};

/**
 * One account: what it is, the ways to all that belongs to it, and what an administrator can do. A change is
 * one step further in the same dialog.
 */
export function AccountDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useQuery(accountQuery(id));
  const [step, setStep] = useState<Step | null>(null);
  const { data: account } = query;
  const Content = step === null ? null : STEPS[step];
  const [last, setLast] = useState<Done | null>(null);
  const back = (): void => setStep(null);
  const goTo = (next: Step): void => {
    setLast(null);
    setStep(next);
  };
  const finish = (done: Done): void => {
    setLast(done);
    setStep(null);
  };
  return (
    <Dialog
      key={step}
      onClose={step === null ? onClose : back}
      shape="side"
      title={account ? (step === null ? account.name : TITLES[step](account.name)) : `Account ${id}`}
    >
      <Loaded query={query} title="The account could not be loaded" height="h-64">
        {(row) =>
          Content ? (
            <Content account={row} onBack={back} onDone={finish} />
          ) : (
            <About account={row} last={last} onStep={goTo} />
          )
        }
      </Loaded>
    </Dialog>
  );
}

function About({
  account,
  last,
  onStep,
}: {
  account: AccountRow;
  /** What was done in the step before. */ last: Done | null;
  onStep: (step: Step) => void;
}) {
  const { id, state, plan, override, created_at: registeredAt, members, keys, month } = account;
  const isAdministrator = useIsAdministrator();
  return (
    <div className="flex flex-col gap-5">
      {last && (
        <p role="status" className="rounded-lg bg-accent-soft px-3 py-2">
          <ChangeTold {...last} />
        </p>
      )}
      <Facts
        facts={[
          [
            'State',
            state === 'active' ? (
              <Badge key="state" tone="good">
                active
              </Badge>
            ) : (
              <Suspended key="state" />
            ),
          ],
          ['Id', <Copyable key="id" text={id} what="the account’s id" />],
          ['Registered', <When key="registered" time={registeredAt} />],
          ['Plan', <Plan key="plan" name={plan} />],
          ['Own terms', override === null ? 'none' : describeTerms(override, 'override')],
          ['Members', showCount(members)],
          ['Good keys', showCount(keys)],
          [
            'This month',
            `${showCount(month.requests)} requests, ${showCount(month.tokens)} tokens, ${showCost(month.cost_microusd)}`,
          ],
        ]}
      />
      <Ways id={id} />
      {isAdministrator && (
        <section aria-label="Changes" className="flex flex-wrap gap-2 border-t border-line pt-4">
          <Button icon="tag" onClick={() => onStep('plan')}>
            Change plan
          </Button>
          <Button icon="gauge" onClick={() => onStep('terms')}>
            {override === null ? 'Give own terms' : 'Change own terms'}
          </Button>
          {state === 'active' ? (
            <Button look="danger" icon="pause" onClick={() => onStep('suspend')}>
              Suspend
            </Button>
          ) : (
            <Button icon="play" onClick={() => onStep('reinstate')}>
              Reinstate
            </Button>
          )}
        </section>
      )}
    </div>
  );
}

function Plan({ name }: { name: string | null }) {
  const { data: plans = [] } = useQuery(plansQuery);
  if (name === null) return 'none: nothing is limited by a plan';
  const isRetired = plans.some((plan) => plan.name === name && plan.state === 'retired');
  return (
    <>
      {name}{' '}
      {isRetired && <span className="text-warn">is retired: calls are refused until it is on another</span>}
    </>
  );
}

function Suspended() {
  return (
    <>
      <Badge tone="bad">suspended</Badge> <span className="text-muted">its calls are refused</span>
    </>
  );
}

/** Where to look at what belongs to an account. */
function Ways({ id }: { id: string }) {
  const look = buttonClass('plain');
  return (
    <nav aria-label="Of this account" className="flex flex-wrap gap-2">
      <Link to="/requests" search={{ account: id }} className={look}>
        Requests
      </Link>
      <Link to="/usage" search={{ account: id }} className={look}>
        Usage
      </Link>
      <Link to="/keys" search={{ account: id }} className={look}>
        API keys
      </Link>
      <Link to="/limits" search={{ account: id }} className={look}>
        Limits
      </Link>
      <Link to="/admin/members" className={look}>
        Members
      </Link>
      <Link to="/audit" search={{ account: id }} className={look}>
        Events
      </Link>
    </nav>
  );
}
