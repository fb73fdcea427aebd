import type { ReactNode } from 'react';
import { Button } from '../../ui/button.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import type { Action } from './use-action.ts';

type AuthFormProps = {
  does: Pick<Action<FormData, unknown>, 'run' | 'error' | 'isPending'>;
  /** The label of the submit button. */
  action: string;
  /** Fields that show their own errors. */
  fields: readonly string[];
  children: ReactNode;
};

/** A form of the sign-in pages: fields, errors and one submit button. */
export function AuthForm({ does: { run, error, isPending }, action, fields, children }: AuthFormProps) {
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        run(new FormData(event.currentTarget));
      }}
    >
      {children}
      <FormProblem error={error} fields={fields} />
      <Button type="submit" look="primary" busy={isPending} className="min-h-9 w-full">
        {action}
      </Button>
    </form>
  );
}

/** A form field's text. */
export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === 'string' ? value : '';
}
