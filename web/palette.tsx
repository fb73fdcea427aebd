import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, useId, useRef, useState } from 'react';
import { setTheme, setZone } from './lib/hooks/preferences.ts';
import { useMe } from './lib/api/session.ts';
import { pagesFor } from './pages.ts';
import { Icon, type IconName } from './ui/icon.tsx';
import { Modal } from './ui/dialog/modal.tsx';

type Entry = { name: string; icon: IconName; keys?: string; run: () => void };

/** A command menu for pages and actions. */
export function Palette({ onClose }: { onClose: () => void }) {
  const { member } = useMe();
  const navigate = useNavigate();
  const list = useRef<HTMLUListElement>(null);
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();

  const entries: Entry[] = [
    ...pagesFor(member.role).map(({ name, icon, key, path }) => ({
      name,
      icon,
      keys: `g ${key}`,
      run: () => void navigate({ to: path }),
    })),
    { name: 'Use light theme', icon: 'sun', run: () => setTheme('light') },
    { name: 'Use dark theme', icon: 'moon', run: () => setTheme('dark') },
    { name: 'Show times in UTC', icon: 'clock', run: () => setZone('utc') },
    { name: 'Show times in local time', icon: 'clock', run: () => setZone('local') },
  ];
  const words = text.toLowerCase().split(/\s+/);
  const found = entries.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
  const current = Math.min(at, found.length - 1);
  const choose = (entry: Entry | undefined): void => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Enter') choose(found[current]);
    if (step === undefined || found.length === 0) return;
    event.preventDefault();
    const next = (current + step + found.length) % found.length;
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: 'nearest' });
  };

  return (
    <Modal
      aria-label="Command menu"
      onClose={onClose}
      className={[
        'mx-auto mt-[12vh] w-[min(30rem,calc(100vw-2rem))] overflow-hidden rounded-xl border',
        'border-line bg-surface p-0 shadow-xl',
      ].join(' ')}
    >
      <input
        role="combobox"
        aria-label="Search pages and actions"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={found.length === 0 ? undefined : `${id}-${current}`}
        autoComplete="off"
        placeholder="Search pages and actions…"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
        className={[
          'w-full border-b border-line bg-transparent px-4 py-3 text-base outline-none',
          'placeholder:text-muted',
        ].join(' ')}
      />
      <ul ref={list} id={id} role="listbox" aria-label="Results" className="max-h-80 overflow-y-auto p-1.5">
        {found.map((entry, index) => (
          <li
            key={entry.name}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === current}
            onMouseMove={() => setAt(index)}
            onClick={() => choose(entry)}
            className={[
              'flex cursor-pointer items-center gap-2.5 rounded-md px-2.5 py-1.5',
              'aria-selected:bg-accent-soft aria-selected:text-accent',
            ].join(' ')}
          >
            <Icon name={entry.icon} />
            {entry.name}
            {entry.keys !== undefined && (
              <kbd className="ml-auto font-sans text-xs text-muted">{entry.keys}</kbd>
            )}
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className="px-4 pb-4 text-muted">No results</p>}
    </Modal>
  );
}
