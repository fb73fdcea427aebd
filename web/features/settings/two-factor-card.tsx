import { useState } from 'react';
import { useMe } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { EnableTotp } from './enable-totp.tsx';
import { DisableTotp } from './disable-totp.tsx';

/** Two-factor authentication by one-time codes. */
export function TwoFactorCard() {
  const { has_totp } = useMe().member;
  const [open, setOpen] = useState<'add' | 'remove' | null>(null);
  const close = (): void => setOpen(null);
  return (
    <Card
      title="Two-factor authentication"
      actions={<Badge tone={has_totp ? 'success' : 'plain'}>{has_totp ? 'On' : 'Off'}</Badge>}
    >
      <p className="mb-4 text-muted">
        {has_totp
          ? 'Signing in requires a code. If you lose your device, ask an operator to reset it.'
          : 'Use an authenticator app to require a one-time code in addition to your password.'}
      </p>
      {has_totp ? (
        <Button look="danger" onClick={() => setOpen('remove')}>
          Turn off
        </Button>
      ) : (
        <Button icon="shield" onClick={() => setOpen('add')}>
          Set up
        </Button>
      )}
      {open === 'add' && <EnableTotp onClose={close} />}
      {open === 'remove' && <DisableTotp onClose={close} />}
    </Card>
  );
}
