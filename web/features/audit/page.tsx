import { PageHead } from '../../ui/parts.tsx';

export function AuditPage() {
  return <PageHead title="Event log" />;
}
