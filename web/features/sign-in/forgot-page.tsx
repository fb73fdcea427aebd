import { PageHead } from '../../ui/parts.tsx';

export function ForgotPage() {
  return <PageHead title="Forgot" />;
}
