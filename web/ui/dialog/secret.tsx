import type { ReactNode } from 'react';
import { CopyButton } from '../copy.tsx';
import { Icon } from '../icon.tsx';

type SecretProps = {
  /** A secret or a secret link. */
  secret: string;
  /** Completes the button "Copy …", such as "link". */
  what: string;
  /** What to do with it. */
  about: ReactNode;
  /** More buttons. */
  children?: ReactNode;
};

/** A secret that is shown only once, with a copy button. */
export function Secret({ secret, what, about, children }: SecretProps) {
  return (
    <>
      <div className="flex gap-2.5 rounded-lg border border-warn bg-warn-soft px-3 py-2.5">
        <Icon name="warning" className="mt-0.5 text-warn" />
        <p>
          <strong className="font-semibold text-warn">
            Copy this {what} now. You won’t be able to see it again.
          </strong>{' '}
          {about}
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <code
          data-secret
          className={[
            'min-w-0 flex-1 basis-60 rounded-md border border-line bg-sunken px-2.5 py-1.5',
            'font-mono text-xs break-all select-all',
          ].join(' ')}
        >
          {secret}
        </code>
        <CopyButton text={secret} label={`Copy ${what}`} look="primary" />
        {children}
      </div>
    </>
  );
}
