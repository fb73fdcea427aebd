import { PageHead } from '../../ui/parts.tsx';

export function FirstCallPage() {
  return <PageHead title="First call" />;
}
