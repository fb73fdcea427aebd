import { PageHead } from '../../ui/parts.tsx';

export function MembersPage() {
  return <PageHead title="Members" />;
}
