import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { RegistrationPolicy } from '#db/events/parts.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import type { RegistrationSettings } from '#server/contract/members.ts';
import { api } from '../../lib/api/api.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { type Choice, Choices } from '../../ui/form/choices.tsx';
import { SelectField } from '../../ui/form/field.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { useMemberChange } from './member-mutations.ts';
import { registrationQuery } from './queries.ts';

const POLICIES: readonly Choice<RegistrationPolicy>[] = [
  {
    value: 'open',
    label: 'Open',
    hint: 'Anyone who can open this page can create an account. Use a plan with strict limits.',
  },
  {
    value: 'invite',
    label: 'Invite only',
    hint: 'An invitation link from an administrator is required.',
  },
  {
    value: 'closed',
    label: 'Closed',
    hint: 'Sign-up is hidden. Invitation links still work.',
  },
];

/** The sign-up policy and the plan of new accounts. */
export function RegistrationCard({ canChange }: { canChange: boolean }) {
  const registration = useQuery(registrationQuery);
  const plans = useQuery(plansQuery);
  return (
    <Card title="Sign-up">
      <Loaded query={registration} title="Couldn’t load the sign-up settings" height="h-56">
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
    () => api<Change>('PUT', '/api/v1/registration', { policy, plan: plan === '' ? null : plan }),
    'Sign-up settings saved.',
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
      <Choices legend="Who can create an account" choices={POLICIES} value={policy} onChange={setPolicy} />
      <SelectField
        label="Plan for new accounts"
        className="max-w-sm"
        value={plan}
        onChange={({ target }) => setPlan(target.value)}
        hint={
          plan === ''
            ? 'Without a plan accounts have unlimited access.'
            : chosen && describeTerms(chosen.terms, 'plan')
        }
        error={fieldError(change.error, 'plan')}
      >
        <option value="">No plan</option>
        {plan !== '' && !chosen && <option value={plan}>{plan}</option>}
        {plans
          ?.filter(({ state, name }) => state === 'active' || name === plan)
          .map(({ name, state }) => (
            <option key={name} value={name}>
              {name}
              {state === 'retired' ? ' (retired: new accounts are rejected)' : ''}
            </option>
          ))}
      </SelectField>
      {isCostly && (
        <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
          {needsPlan
            ? 'Select a plan. Without one, anyone could use every model at your cost.'
            : 'Anyone could use every model of this plan at your cost.'}{' '}
          You can{' '}
          <Link to="/admin/plans" className="underline">
            create a plan
          </Link>{' '}
          that allows only specific models.
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
      {plan === null ? 'New accounts have no plan.' : `New accounts start on plan ${plan}.`}
    </p>
  );
}
