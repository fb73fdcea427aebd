import { type ReactNode, useId } from 'react';
import { IconButton } from '../button.tsx';
import { Modal } from './modal.tsx';

type DialogProps = {
  /** Called by Escape, the close button, or a click outside. */
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
  /** `side`: a panel at the right edge. */
  shape?: 'middle' | 'side';
  /** Closed only by its own buttons, because its content is shown only once. */
  isSticky?: boolean;
};

const SHAPES = {
  middle: 'm-auto w-[min(34rem,calc(100vw-2rem))] max-h-[calc(100dvh-2rem)] rounded-xl border border-line',
  side: 'ml-auto mr-0 my-0 h-dvh max-h-dvh w-[min(40rem,100%)] max-w-none border-l border-line',
} as const;

/** A modal dialog while it is mounted. */
export function Dialog({ onClose, title, children, shape = 'middle', isSticky = false }: DialogProps) {
  const id = useId();
  return (
    <Modal
      aria-labelledby={id}
      onClose={onClose}
      isSticky={isSticky}
      className={`overflow-hidden bg-surface p-0 shadow-xl ${SHAPES[shape]}`}
    >
      <div className="flex max-h-[inherit] flex-col">
        <header className="flex items-start justify-between gap-3 border-b border-line px-5 py-3">
          <h2 id={id} className="min-w-0 py-1 break-words">
            {title}
          </h2>
          {!isSticky && <IconButton icon="close" label="Close" onClick={onClose} />}
        </header>
        <div className="min-h-0 flex-1 overflow-y-auto overscroll-contain px-5 py-4">{children}</div>
      </div>
    </Modal>
  );
}

/** The button row of a dialog. */
export function DialogActions({ children }: { children: ReactNode }) {
  return <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>;
}
