import { PageHead } from '../../ui/parts.tsx';

export function RegisterPage() {
  return <PageHead title="Register" />;
}
