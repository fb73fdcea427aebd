import { type ReactNode, useId } from 'react';
import { FieldNotes } from './field.tsx';

export type Choice<Value extends string> = { value: Value; label: ReactNode; hint?: ReactNode };

type ChoicesProps<Value extends string> = {
  legend: ReactNode;
  choices: readonly Choice<Value>[];
  value: Value;
  onChange: (value: Value) => void;
  /** Side by side where there is room. */
  isInline?: boolean;
  /** Content for the selected choice. */
  children?: ReactNode;
};

/** Radio buttons with hints. */
export function Choices<Value extends string>({
  legend,
  choices,
  value,
  onChange,
  isInline = false,
  children,
}: ChoicesProps<Value>) {
  const id = useId();
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1.5 font-medium">{legend}</legend>
      <div className={isInline ? 'flex flex-wrap gap-x-5 gap-y-1.5' : 'flex flex-col gap-2'}>
        {choices.map((choice) => (
          <div key={choice.value} className="flex items-start gap-2">
            <input
              type="radio"
              id={`${id}-${choice.value}`}
              name={id}
              checked={choice.value === value}
              onChange={() => onChange(choice.value)}
              aria-describedby={choice.hint === undefined ? undefined : `${id}-${choice.value}-hint`}
              className="mt-0.5 size-4 shrink-0 accent-(--accent)"
            />
            <div className="min-w-0">
              <label htmlFor={`${id}-${choice.value}`}>{choice.label}</label>
              <FieldNotes id={`${id}-${choice.value}`} hint={choice.hint} />
            </div>
          </div>
        ))}
      </div>
      {children}
    </fieldset>
  );
}
