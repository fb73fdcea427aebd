import { PageHead } from '../../ui/parts.tsx';

export function StatusPage() {
  return <PageHead title="Status" />;
}
