import { type KeyboardEvent, type ReactNode, useId, useRef, useState } from 'react';

export type Tab = { id: string; label: ReactNode; content: () => ReactNode };

/** Tabs with arrow key navigation. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const [chosen, choose] = useState(tabs[0]?.id);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const current = tabs.find((tab) => tab.id === chosen) ?? tabs[0];
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined || !current) return;
    event.preventDefault();
    const index = (tabs.indexOf(current) + step + tabs.length) % tabs.length;
    choose(tabs[index]?.id);
    (list.current?.children[index] as HTMLElement | undefined)?.focus();
  };
  if (!current) return null;
  return (
    <div>
      <div
        ref={list}
        role="tablist"
        aria-label={label}
        onKeyDown={move}
        className="flex gap-1 overflow-x-auto border-b border-line"
      >
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            aria-selected={tab === current}
            aria-controls={`${id}-panel`}
            tabIndex={tab === current ? 0 : -1}
            onClick={() => choose(tab.id)}
            className={[
              '-mb-px border-b-2 border-transparent px-3 py-1.5 whitespace-nowrap text-muted',
              'hover:text-ink aria-selected:border-accent aria-selected:text-ink',
            ].join(' ')}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${current.id}`}
        tabIndex={0}
        className="pt-3"
      >
        {current.content()}
      </div>
    </div>
  );
}
