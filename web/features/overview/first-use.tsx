import { Link } from '@tanstack/react-router';
import { useMe } from '../../lib/api/session.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Card, Empty } from '../../ui/layout/parts.tsx';

/** Shown until the first request. */
export function FirstUse() {
  const { member } = useMe();
  return (
    <Card>
      <Empty icon="rocket" title="No requests yet">
        <p>
          {member.role === 'auditor'
            ? 'Usage appears here after the first request.'
            : 'Create a key, copy a command, and watch your first request.'}
        </p>
        {member.role !== 'auditor' && (
          <Link to="/first-call" className={buttonClass('primary', 'mt-4')}>
            Send your first request
          </Link>
        )}
      </Empty>
    </Card>
  );
}
