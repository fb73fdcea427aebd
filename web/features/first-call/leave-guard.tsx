import { type ShouldBlockFn, useBlocker } from '@tanstack/react-router';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';

/** Whoever is signed out has nothing left here to keep. */
const isLeaving: ShouldBlockFn = ({ current, next }) =>
  next.pathname !== current.pathname && next.pathname !== '/sign-in';

/**
 * While a secret is on the page: asks before a link takes its place, and has the browser ask before the tab
 * closes.
 */
export function LeaveGuard() {
  const { status, proceed, reset } = useBlocker({ shouldBlockFn: isLeaving, withResolver: true });
  if (status !== 'blocked') return null;
  return (
    <Dialog onClose={reset} title="Leave the secret behind?">
      <p>You will not see it again. If you have not kept it, stay and copy it.</p>
      <DialogActions>
        <Button onClick={reset}>Stay here</Button>
        <Button look="danger" onClick={proceed}>
          Leave
        </Button>
      </DialogActions>
    </Dialog>
  );
}
