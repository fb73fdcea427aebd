import { PageHead } from '../../ui/parts.tsx';

export function AccountsPage() {
  return <PageHead title="Accounts" />;
}
