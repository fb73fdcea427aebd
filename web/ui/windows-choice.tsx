import { type Choice, Choices } from './choices.tsx';

export type WindowsChoice = 'keep' | 'reset';

const CHOICES: readonly Choice<WindowsChoice>[] = [
  {
    value: 'keep',
    label: 'Keep counting',
    hint: 'What was used in the running minute, hour, day, week and month counts against the new limits.',
  },
  {
    value: 'reset',
    label: 'Begin at zero',
    hint: 'The running windows start again: all of the new limits is free at once.',
  },
];

/** What becomes of usage that was counted before limits change. */
export function WindowsField({
  value,
  onChange,
}: {
  value: WindowsChoice;
  onChange: (value: WindowsChoice) => void;
}) {
  return <Choices legend="Usage so far" choices={CHOICES} value={value} onChange={onChange} />;
}
