import { PageHead } from '../../ui/parts.tsx';

export function SetupPage() {
  return <PageHead title="Setup" />;
}
