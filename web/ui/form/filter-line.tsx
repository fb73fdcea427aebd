import { type FormEvent, type ReactNode, type RefObject, useId, useState } from 'react';
import { Icon, type IconName } from '../icon.tsx';

type FilterLineProps = {
  /** The accessible name. */
  label: string;
  placeholder: string;
  icon: IconName;
  maxLength: number;
  input: RefObject<HTMLInputElement | null>;
  /** Applies the text. Returns an error, or null to clear the field. */
  onLine: (text: string) => string | null | Promise<string | null>;
  /** Further filters. */
  children: ReactNode;
};

/** A filter field that is applied with Enter. */
export function FilterLine({
  label,
  placeholder,
  icon,
  maxLength,
  input,
  onLine,
  children,
}: FilterLineProps) {
  const id = useId();
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const wrong = await onLine(input.current?.value ?? '');
    setProblem(wrong);
    if (wrong === null) form.reset();
  };
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        <form onSubmit={(event) => void submit(event)} className="relative min-w-52 flex-1 max-sm:basis-full">
          <Icon
            name={icon}
            className="pointer-events-none absolute top-1/2 left-2.5 -translate-y-1/2 text-muted"
          />
          <input
            ref={input}
            type="search"
            enterKeyHint="search"
            autoComplete="off"
            spellCheck={false}
            maxLength={maxLength}
            aria-label={label}
            aria-invalid={problem !== null || undefined}
            aria-describedby={problem === null ? undefined : id}
            placeholder={placeholder}
            onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
            className={[
              'w-full rounded-md border border-line-strong bg-surface py-1.5 pr-2.5 pl-8',
              'placeholder:text-muted aria-invalid:border-danger',
            ].join(' ')}
          />
        </form>
        {children}
      </div>
      {problem !== null && (
        <p id={id} role="alert" className="text-xs text-danger">
          {problem}
        </p>
      )}
    </>
  );
}
