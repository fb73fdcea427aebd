import { useEffect, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { announce } from './dialog/toast.tsx';

const SHOWN_MS = 2_000;

/** Copies text and confirms for two seconds. `isDenied`: the browser does not allow copying. */
function useCopy(text: string): { isCopied: boolean; isDenied: boolean; copy: () => void } {
  const [isCopied, setCopied] = useState(false);
  const [isDenied, setDenied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    // The clipboard API requires a secure context.
    const written =
      (navigator.clipboard as Clipboard | undefined)?.writeText(text) ??
      Promise.reject(new Error('no clipboard'));
    written.then(
      () => {
        setDenied(false);
        setCopied(true);
        announce({ text: 'Copied' });
      },
      () => setDenied(true),
    );
  };
  return { isCopied, isDenied, copy };
}

/** Shown next to the button, because a dialog would cover a toast. */
function CopyDenied() {
  return (
    <span role="alert" className="text-xs text-danger">
      The browser blocked copying. Select the text and copy it manually.
    </span>
  );
}

export function CopyButton({
  text,
  label = 'Copy',
  look = 'plain',
}: {
  text: string;
  label?: string;
  look?: 'plain' | 'primary';
}) {
  const { isCopied, isDenied, copy } = useCopy(text);
  return (
    <>
      <Button look={look} icon={isCopied ? 'check' : 'copy'} onClick={copy}>
        {isCopied ? 'Copied' : label}
      </Button>
      {isDenied && <CopyDenied />}
    </>
  );
}

type CopyableProps = {
  text: string;
  shown?: string;
  /** Completes the label "Copy …", such as "request ID". */ what: string;
  /** Whether to break lines only between words. */ hasWords?: boolean;
};

type CopyIconProps = Pick<CopyableProps, 'what'> & { isCopied: boolean; copy: () => void };

const IconOf = ({ what, isCopied, copy }: CopyIconProps) => (
  <IconButton
    icon={isCopied ? 'check' : 'copy'}
    label={`Copy ${what}`}
    onClick={copy}
    className="min-h-6 px-1"
  />
);

/** A copy button for a text that is shown in another form. */
export function CopyIcon({ text, what }: Pick<CopyableProps, 'text' | 'what'>) {
  const { isDenied, ...copying } = useCopy(text);
  return (
    <>
      <IconOf what={what} {...copying} />
      {isDenied && <CopyDenied />}
    </>
  );
}

/** Text with a copy button. */
export function Copyable({ text, shown = text, what, hasWords = false }: CopyableProps) {
  const { isDenied, ...copying } = useCopy(text);
  return (
    <span className={`inline-flex max-w-full items-center gap-1 ${isDenied ? 'flex-wrap' : ''}`}>
      <code className={`min-w-0 font-mono text-xs ${hasWords ? 'wrap-anywhere' : 'break-all'}`}>{shown}</code>
      <IconOf what={what} {...copying} />
      {isDenied && <CopyDenied />}
    </span>
  );
}
