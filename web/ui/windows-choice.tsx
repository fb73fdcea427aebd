import { useId } from 'react';

export type WindowsChoice = 'keep' | 'reset';

const CHOICES: readonly [WindowsChoice, string, string][] = [
  ['keep', 'Keep counting', 'What was used in the running minute, hour, day, week and month counts against the new limits.'],
  ['reset', 'Begin at zero', 'The running windows start again: all of the new limits is free at once.'],
];

/** What becomes of usage that was counted before limits change. */
export function WindowsField({ value, onChange }: { value: WindowsChoice; onChange: (value: WindowsChoice) => void }) {
  const id = useId();
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 font-medium">Usage so far</legend>
      {CHOICES.map(([choice, label, hint]) => (
        <div key={choice} className="flex items-start gap-2">
          <input type="radio" id={`${id}-${choice}`} name={id} checked={value === choice} onChange={() => onChange(choice)} aria-describedby={`${id}-${choice}-hint`} className="mt-0.5 size-4 accent-(--accent)" />
          <div>
            <label htmlFor={`${id}-${choice}`}>{label}</label>
            <p id={`${id}-${choice}-hint`} className="text-xs text-muted">
              {hint}
            </p>
          </div>
        </div>
      ))}
    </fieldset>
  );
}
