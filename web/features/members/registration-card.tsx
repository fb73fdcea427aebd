import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { RegistrationPolicy } from '#db/events/parts.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import type { RegistrationSettings } from '#server/contract/members.ts';
import { api } from '../../lib/api.ts';
import { plansQuery } from '../../lib/plans.ts';
import { Button } from '../../ui/button.tsx';
import { type Choice, Choices } from '../../ui/choices.tsx';
import { SelectField } from '../../ui/field.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { Card } from '../../ui/parts.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { useMemberChange } from './change-members.ts';
import { registrationQuery } from './queries.ts';

const POLICIES: readonly Choice<RegistrationPolicy>[] = [
  {
    value: 'open',
    label: 'Open',
    hint: 'Anybody who reaches this page makes an account. Choose a plan that costs you nothing: only models without a paid upstream, with rates and a quota.',
  },
  {
    value: 'invite',
    label: 'By invitation',
    hint: 'Only those with a link from an administrator make an account, or join one.',
  },
  {
    value: 'closed',
    label: 'Closed',
    hint: 'Nobody registers, and the sign-in page does not offer it. Links that administrators make still work.',
  },
];

/** Who may come, and on which plan they land. */
export function RegistrationCard({ canChange }: { canChange: boolean }) {
  const registration = useQuery(registrationQuery);
  const plans = useQuery(plansQuery);
  return (
    <Card title="Registration">
      <Loaded query={registration} title="The registration could not be loaded" height="h-56">
        {(shown) =>
          canChange ? (
            <RegistrationForm key={`${shown.policy} ${shown.plan}`} shown={shown} plans={plans.data} />
          ) : (
            <RegistrationText shown={shown} />
          )
        }
      </Loaded>
    </Card>
  );
}

function RegistrationForm({
  shown,
  plans,
}: {
  shown: RegistrationSettings;
  plans: readonly PlanRow[] | undefined;
}) {
  const [policy, setPolicy] = useState(shown.policy);
  const [plan, setPlan] = useState(shown.plan ?? '');
  const change = useMemberChange(
    () => api<Change>('PUT', '/api/registration', { policy, plan: plan === '' ? null : plan }),
    'Registration is changed.',
    () => {},
  );
  const chosen = plans?.find(({ name }) => name === plan);
  const isSame = policy === shown.policy && plan === (shown.plan ?? '');
  const needsPlan = policy === 'open' && plan === '';
  const isCostly = policy === 'open' && (needsPlan || chosen?.terms.models === undefined);
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
    >
      <Choices legend="Who may make an account" choices={POLICIES} value={policy} onChange={setPolicy} />
      <SelectField
        label="Plan of new accounts"
        className="max-w-sm"
        value={plan}
        onChange={({ target }) => setPlan(target.value)}
        hint={
          plan === ''
            ? 'Without a plan an account may use everything, without a limit.'
            : chosen && describeTerms(chosen.terms, 'plan')
        }
        error={fieldError(change.error, 'plan')}
      >
        <option value="">None</option>
        {plan !== '' && !chosen && <option value={plan}>{plan}</option>}
        {plans
          ?.filter(({ state, name }) => state === 'active' || name === plan)
          .map(({ name, state }) => (
            <option key={name} value={name}>
              {name}
              {state === 'retired' ? ' (retired: new accounts are refused)' : ''}
            </option>
          ))}
      </SelectField>
      {isCostly && (
        <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
          {needsPlan
            ? 'Choose a plan first: without one, strangers could call every model at your cost, without a limit.'
            : 'Strangers could call every model of this plan at your cost.'}{' '}
          If there is none that fits,{' '}
          <Link to="/admin/plans" className="underline">
            define a plan
          </Link>{' '}
          that names the models they may use.
        </p>
      )}
      <FormProblem error={change.error} fields={['plan']} />
      <div>
        <Button type="submit" look="primary" busy={change.isPending} disabled={isSame || needsPlan}>
          Save
        </Button>
      </div>
    </form>
  );
}

function RegistrationText({ shown: { policy, plan } }: { shown: RegistrationSettings }) {
  const choice = POLICIES.find(({ value }) => value === policy);
  return (
    <p>
      <span className="font-medium">{choice?.label}.</span> {choice?.hint}{' '}
      {plan === null ? 'New accounts are on no plan.' : `New accounts land on the plan ${plan}.`}
    </p>
  );
}
