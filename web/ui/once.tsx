import type { ComponentProps, ReactNode } from 'react';
import { Button } from './button.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { Secret } from './secret.tsx';

type OnceProps = ComponentProps<typeof Secret> & {
  title: ReactNode;
  /** Whoever keeps the secret forgets it here. */
  onClose: () => void;
};

/** Shows what is shown once. Only its own button closes it, and nothing of it stays in the page. */
export function Once({ title, onClose, children, ...secret }: OnceProps) {
  return (
    <Dialog isSticky onClose={onClose} title={title}>
      <div className="flex flex-col gap-4">
        <Secret {...secret} />
        {children}
      </div>
      <DialogActions>
        <Button onClick={onClose}>I have kept it</Button>
      </DialogActions>
    </Dialog>
  );
}
