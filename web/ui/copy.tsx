import { useEffect, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { announce } from './toast.tsx';

const SHOWN_MS = 2_000;

/** Copies and says so for two seconds; where a browser does not allow it, it says that. */
function useCopy(text: string): { isCopied: boolean; copy: () => void } {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    // Browsers have no clipboard for pages that come without TLS from another machine.
    const written = (navigator.clipboard as Clipboard | undefined)?.writeText(text) ?? Promise.reject(new Error('no clipboard'));
    written.then(
      () => {
        setCopied(true);
        announce({ text: 'Copied' });
      },
      () => announce({ text: 'The browser did not allow copying. Select the text and copy it by hand.', tone: 'bad' }),
    );
  };
  return { isCopied, copy };
}

export function CopyButton({ text, label = 'Copy', look = 'plain' }: { text: string; label?: string; look?: 'plain' | 'primary' }) {
  const { isCopied, copy } = useCopy(text);
  return (
    <Button look={look} icon={isCopied ? 'check' : 'copy'} onClick={copy}>
      {isCopied ? 'Copied' : label}
    </Button>
  );
}

/** An id or address with a small button that copies it. */
export function Copyable({ text, shown = text, what = 'it' }: { text: string; shown?: string; /** Of what, for readers: "the request's id". */ what?: string }) {
  const { isCopied, copy } = useCopy(text);
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <code className="min-w-0 font-mono text-xs break-all">{shown}</code>
      <IconButton icon={isCopied ? 'check' : 'copy'} label={`Copy ${what}`} onClick={copy} className="min-h-6 px-1" />
    </span>
  );
}
