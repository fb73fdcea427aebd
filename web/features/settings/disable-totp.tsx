import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { meQuery } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { CurrentPassword, isWrongPassword } from './current-password.tsx';

export function DisableTotp({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const remove = useMutation({
    gcTime: 0,
    mutationFn: async (form: FormData) => {
      const changed = await api<Change>('POST', '/api/v1/totp/remove', { password: form.get('password') });
      announceChange('Two-factor authentication is off.', changed);
      await queries.invalidateQueries({ queryKey: meQuery.queryKey });
      onClose();
    },
  });
  return (
    <Dialog onClose={onClose} title="Turn off two-factor authentication?">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          remove.mutate(new FormData(event.currentTarget));
        }}
      >
        <p>Signing in will only require your password.</p>
        <CurrentPassword name="password" error={remove.error} />
        {!isWrongPassword(remove.error) && <FormProblem error={remove.error} fields={['password']} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="danger" busy={remove.isPending}>
            Turn off
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
