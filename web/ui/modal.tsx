import { type ComponentProps, type SyntheticEvent, useEffect, useRef } from 'react';

type ModalProps = Omit<ComponentProps<'dialog'>, 'ref' | 'open'> & {
  /** Escape, or a press beside it. */
  onClose: () => void;
  /** Only its own buttons close it. */
  isSticky?: boolean;
};

/**
 * What is over the page, for as long as it is drawn: a modal dialog of the browser's own, which keeps
 * the focus inside, closes on Escape or a press beside it, and gives the focus back.
 */
export function Modal({ onClose, isSticky = false, ...rest }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isPressedBeside = useRef(false);
  useEffect(() => {
    const { activeElement } = document;
    const element = dialog.current;
    element?.showModal();
    // The browser's own choice would be the cross.
    element?.querySelector<HTMLElement>('form input, form textarea, form select')?.focus();
    return () => {
      element?.close();
      // What had it may have been drawn anew since; the browser knows only the old one.
      if (activeElement instanceof HTMLElement && activeElement.isConnected) activeElement.focus();
    };
  }, []);
  const cancel = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (!isSticky) onClose();
  };
  // A browser that is asked to close for the second time in a row does so without asking back.
  const closed = (): void => {
    if (dialog.current?.open !== false) return;
    if (isSticky) dialog.current.showModal();
    else onClose();
  };
  return (
    <dialog
      ref={dialog}
      onCancel={cancel}
      onClose={closed}
      closedby={isSticky ? 'none' : 'closerequest'}
      // Whoever marks the text of a field may let go beside the dialog: that is a click on it, too.
      onPointerDown={(event) => (isPressedBeside.current = event.target === dialog.current)}
      onClick={(event) =>
        event.target === dialog.current && isPressedBeside.current && !isSticky && onClose()
      }
      {...rest}
    />
  );
}
