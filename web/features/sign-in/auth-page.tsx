import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Logo } from '../../ui/layout/logo.tsx';

/** The layout of pages without a session. */
export function AuthPage({
  title,
  about,
  children,
  foot,
}: {
  title: string;
  about?: ReactNode;
  children?: ReactNode;
  /** Links below the form. */ foot?: ReactNode;
}) {
  return (
    <main className="grid min-h-dvh place-items-center px-4 py-10">
      <title>{`${title} · Daybook`}</title>
      <div className="w-full max-w-sm">
        <p className="mb-6 flex items-center justify-center gap-2 text-base font-semibold">
          <Logo size={26} />
          Daybook
        </p>
        <div className="rounded-xl border border-line bg-surface px-5 py-6 sm:px-7">
          <h1>{title}</h1>
          {about !== undefined && <div className="mt-1 text-muted">{about}</div>}
          {children !== undefined && <div className="mt-5">{children}</div>}
        </div>
        {/* Reserves its height, since the content may load later. */}
        <div className="mt-4 min-h-10 text-center text-muted">{foot}</div>
      </div>
    </main>
  );
}

export const ToSignIn = ({ children = 'Sign in' }: { children?: ReactNode }) => (
  <Link to="/sign-in" className="text-accent underline">
    {children}
  </Link>
);
