import type { ReactNode } from 'react';
import { Choices } from '../choices.tsx';

/** One of two: all there is, or only what is listed beneath. */
export function Narrowing({
  legend,
  all,
  some = 'Only these',
  isNarrowed,
  onChange,
  children,
}: {
  legend: string;
  /** What it means not to narrow. */ all: string;
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
