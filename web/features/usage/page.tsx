import { PageHead } from '../../ui/parts.tsx';

export function UsagePage() {
  return <PageHead title="Usage" />;
}
