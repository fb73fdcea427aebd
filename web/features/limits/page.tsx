import { PageHead } from '../../ui/parts.tsx';

export function LimitsPage() {
  return <PageHead title="Limits" />;
}
