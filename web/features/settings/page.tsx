import { PageHead } from '../../ui/parts.tsx';

export function SettingsPage() {
  return <PageHead title="Settings" />;
}
