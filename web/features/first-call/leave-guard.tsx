import { type ShouldBlockFn, useBlocker } from '@tanstack/react-router';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';

/** Signing out does not ask: there is nothing left to protect. */
const isLeaving: ShouldBlockFn = ({ current, next }) =>
  next.pathname !== current.pathname && next.pathname !== '/sign-in';

/** Asks for confirmation before navigation or closing the tab discards a visible secret. */
export function LeaveGuard() {
  const { status, proceed, reset } = useBlocker({ shouldBlockFn: isLeaving, withResolver: true });
  if (status !== 'blocked') return null;
  return (
    <Dialog onClose={reset} title="Leave without saving the key?">
      <p>The secret can’t be shown again. Copy it before you leave.</p>
      <DialogActions>
        <Button onClick={reset}>Stay on page</Button>
        <Button look="danger" onClick={proceed}>
          Leave page
        </Button>
      </DialogActions>
    </Dialog>
  );
}
