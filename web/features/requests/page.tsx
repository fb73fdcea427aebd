import { PageHead } from '../../ui/parts.tsx';

export function RequestsPage() {
  return <PageHead title="Requests" />;
}
