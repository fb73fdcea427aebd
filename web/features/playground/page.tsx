import { PageHead } from '../../ui/parts.tsx';

export function PlaygroundPage() {
  return <PageHead title="Playground" />;
}
