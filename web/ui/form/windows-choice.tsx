import { type Choice, Choices } from './choices.tsx';

export type WindowsChoice = 'keep' | 'reset';

const CHOICES: readonly Choice<WindowsChoice>[] = [
  {
    value: 'keep',
    label: 'Keep counting',
    hint: 'Usage in the current windows counts against the new limits.',
  },
  {
    value: 'reset',
    label: 'Reset usage',
    hint: 'Current windows restart at zero.',
  },
];

/** Whether to keep the usage of current windows when limits change. */
export function WindowsField({
  value,
  onChange,
}: {
  value: WindowsChoice;
  onChange: (value: WindowsChoice) => void;
}) {
  return <Choices legend="Current usage" choices={CHOICES} value={value} onChange={onChange} />;
}
