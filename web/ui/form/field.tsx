import { type ComponentProps, type ReactNode, useId } from 'react';
import { Icon } from '../icon.tsx';

const BOX = [
  'w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 text-sm',
  'text-ink placeholder:text-muted aria-invalid:border-danger',
].join(' ');

type FieldProps = {
  label: ReactNode;
  hint?: ReactNode;
  /** The validation error. */ error?: string | null | undefined;
};

/** The hint and the error below a field. */
export function FieldNotes({ id, hint, error }: Pick<FieldProps, 'hint' | 'error'> & { id: string }) {
  return (
    <>
      {hint !== undefined && (
        <p id={`${id}-hint`} className="text-xs text-muted">
          {hint}
        </p>
      )}
      {error != null && (
        <p id={`${id}-error`} role="alert" className="text-xs text-danger">
          {error}
        </p>
      )}
    </>
  );
}

function Frame({ id, label, hint, error, children }: FieldProps & { id: string; children: ReactNode }) {
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="font-medium">
        {label}
      </label>
      {children}
      <FieldNotes id={id} hint={hint} error={error} />
    </div>
  );
}

/** ARIA attributes that link a field to its hint and error. */
export const ariaOf = (id: string, { hint, error }: Pick<FieldProps, 'hint' | 'error'>) => ({
  'aria-invalid': error != null || undefined,
  'aria-describedby':
    [error != null ? `${id}-error` : '', hint === undefined ? '' : `${id}-hint`].join(' ').trim() ||
    undefined,
});

export function TextField({
  label,
  hint,
  error,
  className = '',
  ...rest
}: FieldProps & ComponentProps<'input'>) {
  const id = useId();
  return (
    <Frame id={id} label={label} hint={hint} error={error}>
      <input id={id} className={`${BOX} ${className}`} {...ariaOf(id, { hint, error })} {...rest} />
    </Frame>
  );
}

export function TextArea({
  label,
  hint,
  error,
  className = '',
  ...rest
}: FieldProps & ComponentProps<'textarea'>) {
  const id = useId();
  return (
    <Frame id={id} label={label} hint={hint} error={error}>
      <textarea id={id} className={`${BOX} ${className}`} {...ariaOf(id, { hint, error })} {...rest} />
    </Frame>
  );
}

export function SelectField({
  label,
  hint,
  error,
  children,
  className = '',
  ...rest
}: FieldProps & ComponentProps<'select'>) {
  const id = useId();
  return (
    <Frame id={id} label={label} hint={hint} error={error}>
      <Select id={id} className={className} {...ariaOf(id, { hint, error })} {...rest}>
        {children}
      </Select>
    </Frame>
  );
}

/** A select without a visible label. Requires an `aria-label`. */
export function Select({ className = '', children, ...rest }: ComponentProps<'select'>) {
  return (
    <span className={`relative inline-flex ${className}`}>
      <select className={`${BOX} appearance-none pr-8`} {...rest}>
        {children}
      </select>
      <Icon
        name="chevron"
        size={14}
        className="pointer-events-none absolute top-1/2 right-2.5 -translate-y-1/2 text-muted"
      />
    </span>
  );
}

export function Checkbox({
  label,
  hint,
  ...rest
}: { label: ReactNode; hint?: ReactNode } & ComponentProps<'input'>) {
  const id = useId();
  return (
    <div className="flex items-start gap-2">
      <input
        id={id}
        type="checkbox"
        className="mt-0.5 size-4 shrink-0 accent-(--accent)"
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        {...rest}
      />
      <div>
        <label htmlFor={id}>{label}</label>
        <FieldNotes id={id} hint={hint} />
      </div>
    </div>
  );
}
