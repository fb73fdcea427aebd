import type { ReactNode } from 'react';
import { CopyButton } from './copy.tsx';
import { Icon } from './icon.tsx';

type SecretProps = {
  /** A secret, or a link that is one. */
  secret: string;
  /** What it is, in the button: "Copy the link". */
  what: string;
  /** Why it can't be had again, and what to do with it. */
  about: ReactNode;
  /** More buttons. */
  children?: ReactNode;
};

/** What is shown once, with a way to keep it. */
export function Secret({ secret, what, about, children }: SecretProps) {
  return (
    <>
      <div className="flex gap-2.5 rounded-lg border border-warn bg-warn-soft px-3 py-2.5">
        <Icon name="warning" className="mt-0.5 text-warn" />
        <p>
          <strong className="font-semibold text-warn">You will not see this again.</strong> {about}
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <code
          data-secret
          className="min-w-0 flex-1 basis-60 rounded-md border border-line bg-sunken px-2.5 py-1.5 font-mono text-xs break-all select-all"
        >
          {secret}
        </code>
        <CopyButton text={secret} label={`Copy the ${what}`} look="primary" />
        {children}
      </div>
    </>
  );
}
