import { PageHead } from '../../ui/parts.tsx';

export function ResetPage() {
  return <PageHead title="Reset" />;
}
