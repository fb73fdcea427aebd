import { type ReactNode, useId } from 'react';
import { IconButton } from './button.tsx';
import { Modal } from './modal.tsx';

type DialogProps = {
  /** Escape, the cross, or a press beside it. */
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
  /** `side`: from the right edge, over the whole height. */
  shape?: 'middle' | 'side';
  /** Only its own buttons close it: what it shows can't be had again. */
  isSticky?: boolean;
};

const SHAPES = {
  middle: 'm-auto w-[min(34rem,calc(100vw-2rem))] max-h-[calc(100dvh-2rem)] rounded-xl border border-line',
  side: 'ml-auto mr-0 my-0 h-dvh max-h-dvh w-[min(40rem,100%)] max-w-none border-l border-line',
} as const;

/** A modal dialog with a title, for as long as it is drawn: nothing of it stays in the page. */
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

/** The row of buttons at the end of a dialog's form. */
export function DialogActions({ children }: { children: ReactNode }) {
  return <div className="mt-5 flex flex-wrap justify-end gap-2">{children}</div>;
}
