import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { PasswordField } from '../../ui/form/password-field.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { CurrentPassword, isWrongPassword } from './current-password.tsx';
import { sessionsQuery } from './sessions-card.tsx';

export function PasswordCard() {
  const queries = useQueryClient();
  const change = useMutation({
    gcTime: 0,
    mutationFn: async (form: HTMLFormElement) => {
      const fields = new FormData(form);
      const changed = await api<Change>('POST', '/api/v1/password', {
        current: fields.get('current'),
        password: fields.get('password'),
      });
      form.reset();
      announceChange('Password changed.', changed);
      await queries.invalidateQueries({ queryKey: sessionsQuery.queryKey });
    },
  });
  return (
    <Card title="Password">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate(event.currentTarget);
        }}
      >
        <CurrentPassword name="current" error={change.error} />
        <PasswordField
          kind="new"
          label="New password"
          name="password"
          error={fieldError(change.error, 'password')}
        />
        {!isWrongPassword(change.error) && (
          <FormProblem error={change.error} fields={['current', 'password']} />
        )}
        <div className="flex flex-wrap items-center gap-3">
          <Button type="submit" busy={change.isPending}>
            Change password
          </Button>
          <p className="text-xs text-muted">Ends all your other sessions.</p>
        </div>
      </form>
    </Card>
  );
}
