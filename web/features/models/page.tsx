import { PageHead } from '../../ui/parts.tsx';

export function ModelsPage() {
  return <PageHead title="Models and prices" />;
}
