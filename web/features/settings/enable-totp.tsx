import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Suspense, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { TotpEnrollment } from '#server/contract/session.ts';
import { api } from '../../lib/api/api.ts';
import { meQuery } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { CodeField, codeError } from '../../ui/form/code-field.tsx';
import { Copyable } from '../../ui/copy.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { CurrentPassword, isWrongPassword } from './current-password.tsx';
import { lazyPart } from '../../lib/lazy-part.ts';

// Loaded on demand: rarely used and larger than the rest of the page.
const QrCode = lazyPart(() => import('./qr-code.tsx'), 'QrCode');

/** Sets up two-factor authentication: confirm the password, then the first code of the new secret. */
export function EnableTotp({ onClose }: { onClose: () => void }) {
  // Kept in this dialog only.
  const [begun, setBegun] = useState<TotpEnrollment | null>(null);
  return (
    <Dialog isSticky={begun !== null} onClose={onClose} title="Set up two-factor authentication">
      {begun === null ? (
        <Begin onBegun={setBegun} onClose={onClose} />
      ) : (
        <Confirm begun={begun} onClose={onClose} />
      )}
    </Dialog>
  );
}

function Begin({ onBegun, onClose }: { onBegun: (begun: TotpEnrollment) => void; onClose: () => void }) {
  const begin = useMutation({
    gcTime: 0,
    mutationFn: async (form: FormData) =>
      onBegun(await api<TotpEnrollment>('POST', '/api/v1/totp', { password: form.get('password') })),
  });
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        begin.mutate(new FormData(event.currentTarget));
      }}
    >
      <p>You need an authenticator app such as Aegis, 1Password or Google Authenticator.</p>
      <CurrentPassword name="password" error={begin.error} />
      {!isWrongPassword(begin.error) && <FormProblem error={begin.error} fields={['password']} />}
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" busy={begin.isPending}>
          Continue
        </Button>
      </DialogActions>
    </form>
  );
}

function Confirm({ begun: { secret, uri }, onClose }: { begun: TotpEnrollment; onClose: () => void }) {
  const queries = useQueryClient();
  const confirm = useMutation({
    gcTime: 0,
    mutationFn: async (form: FormData) => {
      const changed = await api<Change>('PUT', '/api/v1/totp', { code: form.get('code') });
      announceChange('Two-factor authentication is on.', changed);
      await queries.invalidateQueries({ queryKey: meQuery.queryKey });
      onClose();
    },
  });
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(event) => {
        event.preventDefault();
        confirm.mutate(new FormData(event.currentTarget));
      }}
    >
      <p>
        Scan this code with your authenticator app, or enter the secret manually.{' '}
        <strong className="font-semibold">It is shown only once.</strong>
      </p>
      <div className="mx-auto size-48 overflow-hidden rounded-md border border-line">
        <Suspense>
          <QrCode text={uri} label="QR code of the secret" />
        </Suspense>
      </div>
      <p className="text-center">
        <Copyable text={secret} what="secret" />
      </p>
      <CodeField label="Code from your authenticator app" error={confirm.error} />
      {codeError(confirm.error) === null && <FormProblem error={confirm.error} />}
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" busy={confirm.isPending}>
          Confirm
        </Button>
      </DialogActions>
    </form>
  );
}
