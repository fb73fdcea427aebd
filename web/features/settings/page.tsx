import { useMe } from '../../lib/session.ts';
import { Copyable } from '../../ui/copy.tsx';
import { PageHead } from '../../ui/page-head.tsx';
import { Card, Facts } from '../../ui/parts.tsx';
import { BrowserCard } from './browser-card.tsx';
import { DeviceCard } from './device-card.tsx';
import { PasswordCard } from './password-card.tsx';
import { SessionsCard } from './sessions-card.tsx';

export function SettingsPage() {
  const { member, account, base_url } = useMe();
  return (
    <>
      <PageHead title="Settings" about="Who you are here, and how you sign in." />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Card title="You" className="lg:col-span-2">
          <Facts
            facts={[
              ['E-mail address', member.email],
              ['Role', member.role],
              ['Account', account.name],
              ['Account id', <Copyable key="account" text={account.id} what="the id of the account" />],
              ['Plan', account.plan ?? 'none'],
              ['Base URL', <Copyable key="base" text={base_url} what="the base URL" />],
            ]}
          />
        </Card>
        <PasswordCard />
        <DeviceCard />
        <BrowserCard />
        <SessionsCard />
      </div>
    </>
  );
}
