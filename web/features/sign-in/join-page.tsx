import { PageHead } from '../../ui/parts.tsx';

export function JoinPage() {
  return <PageHead title="Join" />;
}
