import { useState } from 'react';
import { useMe } from '../../lib/session.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Card } from '../../ui/parts.tsx';
import { AddDevice } from './add-device.tsx';
import { RemoveDevice } from './remove-device.tsx';

/** Codes of a device, besides the password. */
export function DeviceCard() {
  const { has_totp } = useMe().member;
  const [open, setOpen] = useState<'add' | 'remove' | null>(null);
  const close = (): void => setOpen(null);
  return (
    <Card
      title="Codes from a device"
      actions={<Badge tone={has_totp ? 'good' : 'plain'}>{has_totp ? 'On' : 'Off'}</Badge>}
    >
      <p className="mb-4 text-muted">
        {has_totp
          ? 'Signing in asks for a code from your device as well. If you lose it, whoever runs this relay can remove it on its command line.'
          : 'An authenticator on your telephone shows a new code every half a minute. With one, a password alone is not enough to sign in as you.'}
      </p>
      {has_totp ? (
        <Button look="danger" onClick={() => setOpen('remove')}>
          Remove the device
        </Button>
      ) : (
        <Button icon="shield" onClick={() => setOpen('add')}>
          Add a device
        </Button>
      )}
      {open === 'add' && <AddDevice onClose={close} />}
      {open === 'remove' && <RemoveDevice onClose={close} />}
    </Card>
  );
}
