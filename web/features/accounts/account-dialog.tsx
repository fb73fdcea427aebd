import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { AccountRef, AccountRow } from '#server/contract/accounts.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { showCost, showCount, showCounted } from '../../lib/format/show.ts';
import { correctedPart, estimatedShare } from '../../lib/format/usage-source.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { ChangeSummary } from '../../ui/change.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog/dialog.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Badge, Facts } from '../../ui/layout/parts.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { When } from '../../ui/when.tsx';
import { accountQuery } from './account-queries.ts';
import { AccountQuotas } from './account-quotas.tsx';
import { AccountAttribution } from './account-attribution.tsx';
import { AdjustAccount } from './adjust-account.tsx';
import { Adjustments } from './adjustments.tsx';
import { Balance } from './balance.tsx';
import { ChangePlan } from './change-plan.tsx';
import { Corrections } from './corrections.tsx';
import { PlanOverride } from './plan-override.tsx';
import { SetParent } from './set-parent.tsx';
import { ReinstateAccount, SuspendAccount } from './suspend-account.tsx';
import { TopUpAccount } from './top-up.tsx';
import type { Done } from './use-account-change.ts';

const STEPS = {
  plan: ChangePlan,
  terms: PlanOverride,
  parent: SetParent,
  topUp: TopUpAccount,
  adjust: AdjustAccount,
  attribution: AccountAttribution,
  suspend: SuspendAccount,
  reinstate: ReinstateAccount,
} as const;
type Step = keyof typeof STEPS;
const TITLES: Record<Step, (name: string) => string> = {
  plan: (name) => `Change plan of ${name}`,
  terms: (name) => `Override plan for ${name}`,
  parent: (name) => `Parent account of ${name}`,
  topUp: (name) => `Top up ${name}`,
  adjust: (name) => `Adjust usage of ${name}`,
  attribution: (name) => `Attribution of ${name}`,
  suspend: (name) => `Suspend ${name}?`,
  reinstate: (name) => `Reinstate ${name}?`,
};

/**
 * Account details with links to its resources and the administrator's actions. Each action opens as a step of
 * the same dialog.
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
      <Loaded query={query} title="Couldn’t load the account" height="h-64">
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
  /** The change made in the previous step. */ last: Done | null;
  onStep: (step: Step) => void;
}) {
  const { id, state, plan, override, created_at: registeredAt, members, keys, month } = account;
  const { parent, children, prepaid, topped_up_nanousd: toppedUp } = account;
  const isAdministrator = useIsAdministrator();
  return (
    <div className="flex flex-col gap-5">
      {last && (
        <p role="status" className="rounded-lg bg-accent-soft px-3 py-2">
          <ChangeSummary {...last} />
        </p>
      )}
      <Facts
        facts={[
          [
            'State',
            state === 'active' ? (
              <Badge key="state" tone="success">
                Active
              </Badge>
            ) : (
              <Suspended key="state" />
            ),
          ],
          ['ID', <Copyable key="id" text={id} what="account ID" />],
          ['Created', <When key="registered" time={registeredAt} />],
          ['Plan', <Plan key="plan" name={plan} />],
          ['Plan override', override === null ? 'None' : describeTerms(override, 'override')],
          [
            'Parent account',
            parent === null ? (
              'None'
            ) : (
              <span key="parent">
                <AccountLink {...parent} />{' '}
                <span className="text-muted">Its limits count requests of this account too.</span>
              </span>
            ),
          ],
          ...(children.length === 0
            ? []
            : [
                [
                  'Accounts below',
                  <span key="children" className="flex flex-wrap gap-x-2">
                    {children.map((child) => (
                      <AccountLink key={child.id} {...child} />
                    ))}
                  </span>,
                ] as [string, ReactNode],
              ]),
          ['Members', showCount(members)],
          ['Active keys', showCount(keys)],
          [
            'This month',
            [
              showCounted(month.requests, 'request'),
              showCounted(month.tokens, 'token'),
              showCost(month.cost_nanousd),
              estimatedShare(month),
              correctedPart(month),
            ]
              .filter((part) => part !== null)
              .join(' · '),
          ],
        ]}
      />
      <AccountLinks id={id} />
      <AccountQuotas account={id} />
      {(prepaid || toppedUp > 0) && <Balance account={id} prepaid={prepaid} />}
      <Adjustments account={id} />
      <Corrections account={id} />
      {isAdministrator && (
        <section aria-label="Changes" className="flex flex-wrap gap-2 border-t border-line pt-4">
          <Button icon="tag" onClick={() => onStep('plan')}>
            Change plan
          </Button>
          <Button icon="gauge" onClick={() => onStep('terms')}>
            {override === null ? 'Override plan' : 'Edit override'}
          </Button>
          <Button icon="fork" onClick={() => onStep('parent')}>
            {parent === null ? 'Set parent account' : 'Change parent account'}
          </Button>
          <Button icon="plus" onClick={() => onStep('topUp')}>
            Top up
          </Button>
          <Button icon="bars" onClick={() => onStep('adjust')}>
            Adjust usage
          </Button>
          <Button icon="people" onClick={() => onStep('attribution')}>
            Attribution
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

function AccountLink({ id, name }: AccountRef) {
  return (
    <Link to="/admin/accounts" search={{ account: id }} className="underline hover:text-accent">
      {name}
    </Link>
  );
}

function Plan({ name }: { name: string | null }) {
  const { data: plans = [] } = useQuery(plansQuery);
  if (name === null) return 'No plan (unlimited)';
  const isRetired = plans.some((plan) => plan.name === name && plan.state === 'retired');
  return (
    <>
      {name}{' '}
      {isRetired && (
        <span className="text-warn">
          Retired: requests are rejected until the account is moved to another plan.
        </span>
      )}
    </>
  );
}

function Suspended() {
  return (
    <>
      <Badge tone="danger">Suspended</Badge> <span className="text-muted">Requests are rejected</span>
    </>
  );
}

/** Links to the resources of an account. */
function AccountLinks({ id }: { id: string }) {
  const look = buttonClass('plain');
  return (
    <nav aria-label="Account resources" className="flex flex-wrap gap-2">
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
