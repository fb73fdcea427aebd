import { CopyButton } from '../../ui/copy.tsx';

/** A code block with a copy button and horizontal scrolling. */
export function CodeBlock({
  text,
  label,
  use,
}: {
  text: string;
  /** For screen readers. */ label: string;
  use: string;
}) {
  return (
    <div className="overflow-hidden rounded-lg border border-line bg-sunken">
      <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-3 py-1.5">
        <p className="min-w-0 text-xs text-muted">{use}</p>
        <CopyButton text={text} />
      </div>
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className="overflow-x-auto p-3 font-mono text-xs leading-5"
      >
        {text}
      </pre>
    </div>
  );
}
