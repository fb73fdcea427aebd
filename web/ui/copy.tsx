import { useEffect, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { announce } from './toast.tsx';

const SHOWN_MS = 2_000;

/** Copies and says so for two seconds. `isRefused`: the browser did not allow it. */
function useCopy(text: string): { isCopied: boolean; isRefused: boolean; copy: () => void } {
  const [isCopied, setCopied] = useState(false);
  const [isRefused, setRefused] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    // Browsers have no clipboard for pages that come without TLS from another machine.
    const written =
      (navigator.clipboard as Clipboard | undefined)?.writeText(text) ??
      Promise.reject(new Error('no clipboard'));
    written.then(
      () => {
        setRefused(false);
        setCopied(true);
        announce({ text: 'Copied' });
      },
      () => setRefused(true),
    );
  };
  return { isCopied, isRefused, copy };
}

/** Beside the button: a dialog would lie over what is told at the edge of the page. */
function Refused() {
  return (
    <span role="alert" className="text-xs text-bad">
      The browser did not allow copying. Select the text and copy it by hand.
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
  const { isCopied, isRefused, copy } = useCopy(text);
  return (
    <>
      <Button look={look} icon={isCopied ? 'check' : 'copy'} onClick={copy}>
        {isCopied ? 'Copied' : label}
      </Button>
      {isRefused && <Refused />}
    </>
  );
}

type CopyableProps = {
  text: string;
  shown?: string;
  /** For readers: "the id of the request". */ what: string;
  /** It has words, between which a line may end. */ hasWords?: boolean;
};

/** An id or address with a small button that copies it. */
export function Copyable({ text, shown = text, what, hasWords = false }: CopyableProps) {
  const { isCopied, isRefused, copy } = useCopy(text);
  return (
    <span className={`inline-flex max-w-full items-center gap-1 ${isRefused ? 'flex-wrap' : ''}`}>
      <code className={`min-w-0 font-mono text-xs ${hasWords ? 'wrap-anywhere' : 'break-all'}`}>{shown}</code>
      <IconButton
        icon={isCopied ? 'check' : 'copy'}
        label={`Copy ${what}`}
        onClick={copy}
        className="min-h-6 px-1"
      />
      {isRefused && <Refused />}
    </span>
  );
}
