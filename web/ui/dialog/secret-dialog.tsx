import type { ComponentProps, ReactNode } from 'react';
import { Button } from '../button.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { Secret } from './secret.tsx';

type SecretDialogProps = ComponentProps<typeof Secret> & {
  title: ReactNode;
  /** Must discard the secret. */
  onClose: () => void;
};

/** A dialog for a secret that is shown only once. Closed only by its button. */
export function SecretDialog({ title, onClose, children, ...secret }: SecretDialogProps) {
  return (
    <Dialog isSticky onClose={onClose} title={title}>
      <div className="flex flex-col gap-4">
        <Secret {...secret} />
        {children}
      </div>
      <DialogActions>
        <Button onClick={onClose}>Done</Button>
      </DialogActions>
    </Dialog>
  );
}
