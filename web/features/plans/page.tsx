import { PageHead } from '../../ui/parts.tsx';

export function PlansPage() {
  return <PageHead title="Plans" />;
}
