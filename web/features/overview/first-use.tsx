import { Link } from '@tanstack/react-router';
import { useMe } from '../../lib/session.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Card, Empty } from '../../ui/parts.tsx';

/** Before the first call ever: what to do. It goes by itself as soon as one comes. */
export function FirstUse() {
  const { member } = useMe();
  return (
    <Card>
      <Empty icon="rocket" title="No call has been made yet">
        <p>
          {member.role === 'auditor'
            ? 'Figures are shown here as soon as somebody calls.'
            : 'Make the first one in a minute: take a key, copy a command, and see it arrive.'}
        </p>
        {member.role !== 'auditor' && (
          <Link to="/first-call" className={buttonClass('primary', 'mt-4')}>
            Make the first call
          </Link>
        )}
      </Empty>
    </Card>
  );
}
