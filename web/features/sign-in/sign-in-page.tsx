import { PageHead } from '../../ui/parts.tsx';

export function SignInPage() {
  return <PageHead title="Sign-in" />;
}
