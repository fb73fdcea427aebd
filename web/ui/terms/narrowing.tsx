import type { ReactNode } from 'react';
import { Choices } from '../form/choices.tsx';

/** A choice between all and a list. */
export function Narrowing({
  legend,
  all,
  some = 'Selected',
  isNarrowed,
  onChange,
  children,
}: {
  legend: string;
  /** The label of the unrestricted choice. */ all: string;
  some?: string;
  isNarrowed: boolean;
  onChange: (isNarrowed: boolean) => void;
  children: ReactNode;
}) {
  return (
    <Choices
      legend={legend}
      choices={[
        { value: 'all', label: all },
        { value: 'some', label: some },
      ]}
      value={isNarrowed ? 'some' : 'all'}
      onChange={(value) => onChange(value === 'some')}
      isInline
    >
      {isNarrowed && <div className="mt-1.5">{children}</div>}
    </Choices>
  );
}
