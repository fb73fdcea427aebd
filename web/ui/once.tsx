import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { Icon } from './icon.tsx';

type OnceProps = {
  title: ReactNode;
  /** A secret, or a link that is one. Whoever keeps it forgets it in `onClose`. */
  secret: string;
  /** What it is, in the button: "Copy the link". */
  what: string;
  /** Why it can't be had again, and what to do with it. */
  about: ReactNode;
  onClose: () => void;
  children?: ReactNode;
};

/** Shows what is shown once. Only its own button closes it, and nothing of it stays in the page. */
export function Once({ title, secret, what, about, onClose, children }: OnceProps) {
  return (
    <Dialog isOpen isSticky onClose={onClose} title={title}>
      <div className="flex flex-col gap-4">
        <div className="flex gap-2.5 rounded-lg border border-warn bg-warn-soft px-3 py-2.5">
          <Icon name="warning" className="mt-0.5 text-warn" />
          <p>
            <strong className="font-semibold text-warn">You will not see this again.</strong> {about}
          </p>
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <code className="min-w-0 flex-1 basis-60 rounded-md border border-line bg-sunken px-2.5 py-1.5 font-mono text-xs break-all select-all">{secret}</code>
          <CopyButton text={secret} label={`Copy the ${what}`} look="primary" />
        </div>
        {children}
      </div>
      <DialogActions>
        <Button onClick={onClose}>I have kept it</Button>
      </DialogActions>
    </Dialog>
  );
}
