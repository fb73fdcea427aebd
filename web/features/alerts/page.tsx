import { PageHead } from '../../ui/parts.tsx';

export function AlertsPage() {
  return <PageHead title="Alerts" />;
}
