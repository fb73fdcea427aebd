import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { PlanTerms } from '#db/events/events.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { plansQuery } from '../../lib/api/queries.ts';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { ChangesList } from '../../ui/terms/changes-list.tsx';
import { termsChanges } from '../../ui/terms/changes.ts';
import { isTermsError, TermsEditor } from '../../ui/terms/editor.tsx';
import { describeTerms } from '../../ui/terms/summary.ts';
import { type WindowsChoice, WindowsField } from '../../ui/form/windows-choice.tsx';
import { type StepProps, useAccountChange } from './use-account-change.ts';

/** Edits an account's plan override: each value set replaces the plan's. */
export function PlanOverride({ account: { id, plan, override }, onBack, onDone }: StepProps) {
  const { data: plans = [] } = useQuery(plansQuery);
  const [terms, setTerms] = useState<PlanTerms>(override ?? {});
  /** The editor keeps its own text state; a new key resets it. */
  const [revision, setRevision] = useState(0);
  const [windows, setWindows] = useState<WindowsChoice>('keep');
  const put = useAccountChange(
    () => api<Change>('PUT', `/api/v1/accounts/${id}/override`, { terms, windows }),
    'Plan override saved.',
    onDone,
  );
  const planTerms = plans.find(({ name }) => name === plan)?.terms;
  const changes = termsChanges(override ?? {}, terms, 'plan default');
  const clear = (): void => {
    setTerms({});
    setRevision(revision + 1);
  };
  return (
    <form
      className="flex flex-col gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        put.mutate();
      }}
    >
      <p className="text-muted">
        Values set here replace those of {plan === null ? 'the plan (none assigned)' : `plan “${plan}”`} for
        this account only. Empty fields use the plan’s value.{' '}
        {planTerms && ` Plan: ${describeTerms(planTerms, 'plan')}`}
      </p>
      <TermsEditor key={revision} kind="override" terms={terms} onChange={setTerms} errors={put.error} />
      {Object.keys(terms).length > 0 && (
        <div>
          <Button onClick={clear}>Remove override</Button>
        </div>
      )}
      <WindowsField value={windows} onChange={setWindows} />
      <ChangesList changes={changes} windows={windows} />
      {!isTermsError(put.error) && <FormProblem error={put.error} />}
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button
          type="submit"
          look="primary"
          disabled={changes.length === 0 && windows === 'keep'}
          busy={put.isPending}
        >
          Save override
        </Button>
      </DialogActions>
    </form>
  );
}
