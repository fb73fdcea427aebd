import { PageHead } from '../../ui/parts.tsx';

export function KeysPage() {
  return <PageHead title="API keys" />;
}
