import type { PlanRow } from '#server/contract/accounts.ts';
import { SelectField } from '../../ui/form/field.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';

type PlanFieldProps = {
  plans: readonly PlanRow[];
  /** Null for no plan. */ value: string | null;
  onChange: (plan: string | null) => void;
  error?: string | null;
};

/** Selects an account's plan. Retired plans are offered only if the account is on one. */
export function PlanField({ plans, value, onChange, error }: PlanFieldProps) {
  const chosen = plans.find(({ name }) => name === value);
  return (
    <SelectField
      label="Plan"
      value={value ?? ''}
      onChange={({ target }) => onChange(target.value === '' ? null : target.value)}
      hint={
        chosen
          ? describeTerms(chosen.terms, 'plan')
          : value === null
            ? 'Without a plan the account has unlimited access.'
            : ''
      }
      error={error}
    >
      <option value="">No plan</option>
      {plans
        .filter(({ name, state }) => state === 'active' || name === value)
        .map(({ name, state }) => (
          <option key={name} value={name}>
            {name}
            {state === 'retired' && ' (retired)'}
          </option>
        ))}
    </SelectField>
  );
}
