import { type ReactNode, useId, useRef } from 'react';
import { buttonClass } from '../button.tsx';
import { Icon, type IconName } from '../icon.tsx';

export type MenuItem = { label: ReactNode; icon?: IconName; onChoose: () => void; isDanger?: boolean };

/** A menu of actions: a native popover with plain buttons. */
export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const place = (): void => {
    const from = button.current?.getBoundingClientRect();
    const element = menu.current;
    if (!from || !element) return;
    const below = window.innerHeight - from.bottom > element.offsetHeight + 8;
    element.style.top = `${below ? from.bottom + 4 : from.top - element.offsetHeight - 4}px`;
    element.style.left = `${Math.max(8, from.right - element.offsetWidth)}px`;
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        aria-label={label}
        title={label}
        popoverTarget={id}
        className={buttonClass('quiet', 'px-2')}
      >
        <Icon name="more" />
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        onToggle={(event) => event.newState === 'open' && place()}
        className="fixed m-0 min-w-44 rounded-lg border border-line bg-surface p-1 text-ink shadow-lg"
      >
        {items.map((item, index) => (
          <button
            key={index}
            type="button"
            onClick={() => {
              menu.current?.hidePopover();
              item.onChoose();
            }}
            className={[
              'flex w-full items-center gap-2 rounded-md px-2.5 py-1.5 text-left hover:bg-sunken',
              item.isDanger === true ? 'text-danger' : '',
            ].join(' ')}
          >
            {item.icon && <Icon name={item.icon} />}
            {item.label}
          </button>
        ))}
      </div>
    </>
  );
}
