import { type FormEvent, useState } from 'react';
import type { PlanTerms } from '#db/events/events.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { showCounted } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextField } from '../../ui/form/field.tsx';
import { NamedSelect } from '../../ui/form/named-select.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { CheckMonth } from '../../ui/backtest/check-month.tsx';
import { ChangesList } from '../../ui/terms/changes-list.tsx';
import { termsChanges } from '../../ui/terms/changes.ts';
import { isTermsError, TermsEditor } from '../../ui/terms/editor.tsx';
import { useChange } from '../../ui/use-change.ts';
import { type WindowsChoice, WindowsField } from '../../ui/form/windows-choice.tsx';

/** The command line's word for no plan. */
const RESERVED = 'none';

type EditPlanProps = {
  /** Null to create a plan. */ plan: PlanRow | null;
  /** Names in use. */ names: readonly string[];
  onClose: () => void;
};

/** Creates or edits a plan. Edits show the resulting changes before saving. */
export function EditPlan({ plan, names, onClose }: EditPlanProps) {
  const [name, setName] = useState(plan?.name ?? '');
  const [terms, setTerms] = useState<PlanTerms>(plan?.terms ?? {});
  const [windows, setWindows] = useState<WindowsChoice>('keep');
  const changes = plan === null ? [] : termsChanges(plan.terms, terms);
  const isIdle = plan !== null && changes.length === 0 && windows === 'keep';
  const put = useChange(
    () => api<Change>('PUT', `/api/v1/plans/${encodeURIComponent(name)}`, { terms, windows }),
    {
      done: plan === null ? `Plan ${name} created.` : `Plan ${name} saved.`,
      invalidates: [plansQuery.queryKey],
      onDone: onClose,
    },
  );
  const send = (event: FormEvent): void => {
    event.preventDefault();
    put.mutate();
  };
  return (
    <Dialog onClose={onClose} shape="side" title={plan === null ? 'Create plan' : `Edit plan ${plan.name}`}>
      <form onSubmit={send} className="flex flex-col gap-5">
        {plan === null && (
          <NameField value={name} onChange={setName} names={names} error={fieldError(put.error, 'plan')} />
        )}
        <TermsEditor kind="plan" terms={terms} onChange={setTerms} errors={put.error} />
        {plan !== null && (
          <>
            <WindowsField value={windows} onChange={setWindows} />
            <ChangesList changes={changes} windows={windows} />
            <p className="text-muted">
              Used by {showCounted(plan.accounts, 'account')}. Changes take effect on every server within a
              second. Running requests that are no longer permitted end with an error.
            </p>
          </>
        )}
        <Check terms={terms} of={plan?.name} plans={names} />
        {!isTermsError(put.error) && <FormProblem error={put.error} fields={['plan']} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={isIdle} busy={put.isPending}>
            {plan === null ? 'Create plan' : 'Save changes'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

/** The check of the terms: by the accounts of the plan or, for a new one, by those of a plan to choose. */
function Check({ terms, of, plans }: { terms: PlanTerms; of: string | undefined; plans: readonly string[] }) {
  const [chosen, setChosen] = useState<string>();
  const plan = of ?? chosen;
  const changes = { plan: { terms, ...(plan === undefined ? {} : { of: plan }) } };
  return (
    <CheckMonth key={JSON.stringify(changes)} changes={changes}>
      {of === undefined && plans.length > 0 && (
        <NamedSelect
          label="Calls to check"
          all="Calls of all accounts"
          value={chosen}
          rows={plans.map((id) => ({ id, name: `Calls of plan ${id}` }))}
          onChoose={setChosen}
          className="w-full sm:w-auto"
        />
      )}
    </CheckMonth>
  );
}

/** A plan's name is permanent: saving under an existing name would change that plan. */
function NameField({
  value,
  onChange,
  names,
  error,
}: {
  value: string;
  onChange: (value: string) => void;
  names: readonly string[];
  error: string | null;
}) {
  const taken =
    value === RESERVED
      ? '“none” is reserved.'
      : names.includes(value)
        ? 'A plan with this name exists. Names of retired plans can’t be reused.'
        : null;
  return (
    <TextField
      ref={(element) => element?.setCustomValidity(taken ?? '')}
      label="Name"
      required
      maxLength={64}
      pattern="[a-z0-9][a-z0-9._\-]*"
      autoComplete="off"
      autoCapitalize="none"
      spellCheck={false}
      placeholder="free"
      hint="Lowercase letters, digits, dots, hyphens and underscores. Can’t be changed later."
      value={value}
      onChange={({ target }) => onChange(target.value)}
      error={taken ?? error}
    />
  );
}
