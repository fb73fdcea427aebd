import type { ReactNode } from 'react';

/** A page's header: title, description and actions. */
export function PageHead({
  title,
  about,
  children,
}: {
  title: string;
  about?: ReactNode;
  /** Actions. */ children?: ReactNode;
}) {
  return (
    <header className="mb-5 flex flex-wrap items-end justify-between gap-x-4 gap-y-3">
      <title>{`${title} · Daybook`}</title>
      <div className="min-w-0">
        <h1>{title}</h1>
        {about !== undefined && <p className="mt-0.5 text-muted">{about}</p>}
      </div>
      {children !== undefined && <div className="flex flex-wrap items-center gap-2">{children}</div>}
    </header>
  );
}
