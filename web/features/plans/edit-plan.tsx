import { type FormEvent, useState } from 'react';
import type { PlanTerms } from '#db/events/events.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api.ts';
import { plansQuery } from '../../lib/plans.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { ChangesList } from '../../ui/terms/changes-list.tsx';
import { termsChanges } from '../../ui/terms/changes.ts';
import { isTermsError, TermsEditor } from '../../ui/terms/editor.tsx';
import { useChange } from '../../ui/use-change.ts';
import { type WindowsChoice, WindowsField } from '../../ui/windows-choice.tsx';

/** The word that stands for no plan on the command line. */
const RESERVED = 'none';

type EditPlanProps = {
  /** Null: a new one. */ plan: PlanRow | null;
  /** Those that are taken. */ names: readonly string[];
  onClose: () => void;
};

/** Defines a plan, or gives one other terms. What would change stands above the button that does it. */
export function EditPlan({ plan, names, onClose }: EditPlanProps) {
  const [name, setName] = useState(plan?.name ?? '');
  const [terms, setTerms] = useState<PlanTerms>(plan?.terms ?? {});
  const [windows, setWindows] = useState<WindowsChoice>('keep');
  const changes = plan === null ? [] : termsChanges(plan.terms, terms);
  const isIdle = plan !== null && changes.length === 0 && windows === 'keep';
  const put = useChange(
    () => api<Change>('PUT', `/api/plans/${encodeURIComponent(name)}`, { terms, windows }),
    {
      done: plan === null ? `Plan ${name} defined.` : `Plan ${name} changed.`,
      altered: [plansQuery.queryKey],
      onDone: onClose,
    },
  );
  const send = (event: FormEvent): void => {
    event.preventDefault();
    put.mutate();
  };
  return (
    <Dialog
      onClose={onClose}
      shape="side"
      title={plan === null ? 'Define a plan' : `Change plan ${plan.name}`}
    >
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
              {plan.accounts === 0
                ? 'No account is on it.'
                : `${showCount(plan.accounts)} ${plan.accounts === 1 ? 'account is' : 'accounts are'} on it.`}{' '}
              The terms hold on every server within a second, and replies that run and are no longer permitted
              end with an error.
            </p>
          </>
        )}
        {!isTermsError(put.error) && <FormProblem error={put.error} fields={['plan']} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={isIdle} busy={put.isPending}>
            {plan === null ? 'Define plan' : 'Save changes'}
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

/** A plan is known by its name for good: another under the same one would change it instead. */
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
      ? '“none” stands for no plan.'
      : names.includes(value)
        ? 'There is a plan of this name already. Names of retired plans are not given again.'
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
      hint="Small letters, digits, dots, dashes and underscores. It can't be changed later."
      value={value}
      onChange={({ target }) => onChange(target.value)}
      error={taken ?? error}
    />
  );
}
