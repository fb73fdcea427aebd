import type { ComponentProps } from 'react';
import { Icon, type IconName } from './icon.tsx';

const LOOKS = {
  primary: 'bg-accent text-accent-ink hover:opacity-90 border-transparent',
  plain: 'bg-surface text-ink border-line hover:bg-sunken',
  quiet: 'bg-transparent text-muted border-transparent hover:bg-sunken hover:text-ink',
  danger: 'bg-surface text-danger border-line hover:bg-danger-soft',
} as const;
type Look = keyof typeof LOOKS;

/** Button styles, also for links. */
export function buttonClass(look: Look = 'plain', more = ''): string {
  return [
    'inline-flex items-center justify-center gap-1.5 rounded-md border px-3 min-h-8 text-sm font-medium',
    'whitespace-nowrap disabled:opacity-50 aria-disabled:opacity-50',
    LOOKS[look],
    more,
  ].join(' ');
}

type ButtonProps = ComponentProps<'button'> & {
  look?: Look;
  icon?: IconName;
  /** An action is in progress. */ busy?: boolean;
};

export function Button({
  look = 'plain',
  icon,
  busy = false,
  children,
  className = '',
  disabled,
  type = 'button',
  ...rest
}: ButtonProps) {
  return (
    <button
      type={type}
      disabled={disabled === true || busy}
      aria-busy={busy || undefined}
      className={buttonClass(look, className)}
      {...rest}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** An icon button. The label is its accessible name and tooltip. */
export function IconButton({
  icon,
  label,
  className = '',
  type = 'button',
  ...rest
}: Omit<ComponentProps<'button'>, 'children'> & { icon: IconName; label: string }) {
  return (
    <button
      type={type}
      aria-label={label}
      title={label}
      className={buttonClass('quiet', `px-2 ${className}`)}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  );
}
