import { type KeyboardEvent, useId, useState } from 'react';
import { ariaOf, FieldNotes } from '../form/field.tsx';
import { Icon } from '../icon.tsx';

type ListFieldProps = {
  /** The accessible name. */
  label: string;
  value: readonly string[];
  onChange: (value: string[]) => void;
  placeholder?: string;
  hint?: string;
  error?: string | null;
  suggestions?: readonly string[];
  /** Normalizes typed text. */
  read?: (text: string) => string;
};

/** A list of typed or pasted names, separated by Enter or commas. Unfinished text counts as an item. */
export function ListField({
  label,
  value,
  onChange,
  placeholder,
  hint,
  error,
  suggestions = [],
  read = (text) => text.trim(),
}: ListFieldProps) {
  const id = useId();
  const [items, setItems] = useState(value);
  const [typed, setTyped] = useState('');
  const set = (nextItems: readonly string[], nextTyped: string): void => {
    setItems(nextItems);
    setTyped(nextTyped);
    onChange([...new Set([...nextItems, read(nextTyped)])].filter((each) => each !== ''));
  };
  const addAll = (text: string): void => {
    const parts = text.split(/[,\n]/).map(read);
    set(
      [...new Set([...items, ...parts])].filter((each) => each !== ''),
      '',
    );
  };
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>): void => {
    if (event.key === 'Enter' && typed.trim() !== '') {
      event.preventDefault();
      addAll(typed);
    }
    if (event.key === 'Backspace' && typed === '') set(items.slice(0, -1), '');
  };
  const rest = suggestions.filter((each) => !items.includes(each));
  return (
    <div className="flex flex-col gap-1">
      <div
        className={[
          'flex flex-wrap items-center gap-1 rounded-md border bg-surface p-1',
          error == null ? 'border-line-strong' : 'border-danger',
        ].join(' ')}
      >
        {items.map((item) => (
          <span key={item} className="inline-flex max-w-full items-center rounded-sm bg-sunken pl-1.5">
            <code className="min-w-0 font-mono text-xs break-all">{item}</code>
            <button
              type="button"
              aria-label={`Remove ${item}`}
              onClick={() =>
                set(
                  items.filter((each) => each !== item),
                  typed,
                )
              }
              className="grid size-6 shrink-0 place-items-center text-muted hover:text-ink"
            >
              <Icon name="close" size={12} />
            </button>
          </span>
        ))}
        <input
          aria-label={label}
          {...ariaOf(id, { hint, error })}
          list={rest.length === 0 ? undefined : `${id}-list`}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          placeholder={items.length === 0 ? placeholder : undefined}
          value={typed}
          onChange={({ target }) =>
            /[,\n]/.test(target.value) ? addAll(target.value) : set(items, target.value)
          }
          onPaste={(event) => {
            const text = event.clipboardData.getData('text');
            if (!/[,\n]/.test(text)) return;
            event.preventDefault();
            addAll(typed + text);
          }}
          onKeyDown={onKeyDown}
          className={[
            'min-h-6 min-w-32 flex-1 bg-transparent px-1.5 font-mono text-xs outline-offset-4',
            'placeholder:text-muted',
          ].join(' ')}
        />
        <datalist id={`${id}-list`}>
          {rest.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      </div>
      <FieldNotes id={id} hint={hint} error={error} />
    </div>
  );
}
