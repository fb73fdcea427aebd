import { useMe } from '../../lib/api/session.ts';
import { Copyable } from '../../ui/copy.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Facts } from '../../ui/layout/parts.tsx';
import { BrowserCard } from './browser-card.tsx';
import { TwoFactorCard } from './two-factor-card.tsx';
import { PasswordCard } from './password-card.tsx';
import { SessionsCard } from './sessions-card.tsx';
import { capitalized } from '../../lib/format/show.ts';

export function SettingsPage() {
  const { member, account, base_url } = useMe();
  return (
    <>
      <PageHead title="Settings" about="Your profile, sign-in methods and sessions." />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <Card title="Profile" className="lg:col-span-2">
          <Facts
            facts={[
              ['Email', member.email],
              ['Role', capitalized(member.role)],
              ['Account', account.name],
              ['Account ID', <Copyable key="account" text={account.id} what="account ID" />],
              ['Plan', account.plan ?? 'No plan'],
              ['Base URL', <Copyable key="base" text={base_url} what="base URL" />],
            ]}
          />
        </Card>
        {member.has_password ? (
          <>
            <PasswordCard />
            <TwoFactorCard />
          </>
        ) : (
          <Card title="Sign-in">
            <p className="text-muted">
              You sign in through your organization’s identity provider, which has your password and second
              factor.
            </p>
          </Card>
        )}
        <BrowserCard />
        <SessionsCard />
      </div>
    </>
  );
}
