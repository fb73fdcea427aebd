import { PageHead } from '../../ui/parts.tsx';

export function OverviewPage() {
  return <PageHead title="Overview" />;
}
