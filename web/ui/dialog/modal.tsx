import { type ComponentProps, type SyntheticEvent, useEffect, useRef } from 'react';

type ModalProps = Omit<ComponentProps<'dialog'>, 'ref' | 'open'> & {
  /** Called by Escape or a click outside. */
  onClose: () => void;
  /** Closed only by its own buttons. */
  isSticky?: boolean;
};

/**
 * A native modal dialog while it is mounted. Traps the focus, closes on Escape or a click outside, and
 * restores the focus.
 */
export function Modal({ onClose, isSticky = false, ...rest }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isPressedOutside = useRef(false);
  useEffect(() => {
    const { activeElement } = document;
    const element = dialog.current;
    element?.showModal();
    // By default the browser focuses the close button.
    element?.querySelector<HTMLElement>('form input, form textarea, form select')?.focus();
    return () => {
      element?.close();
      // The element may have been remounted; the browser only knows the old one.
      if (activeElement instanceof HTMLElement && activeElement.isConnected) activeElement.focus();
    };
  }, []);
  const cancel = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (!isSticky) onClose();
  };
  // A second close request in a row can't be prevented, so the dialog is reopened.
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
      // Selecting text may end outside the dialog, which also fires a click on it.
      onPointerDown={(event) => (isPressedOutside.current = event.target === dialog.current)}
      onClick={(event) =>
        event.target === dialog.current && isPressedOutside.current && !isSticky && onClose()
      }
      {...rest}
    />
  );
}
