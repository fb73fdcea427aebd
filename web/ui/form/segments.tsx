import type { ComponentProps } from 'react';
import { buttonClass } from '../button.tsx';

/** One segment, pressed if selected. */
export const Segment = (props: ComponentProps<'button'>) => (
  <button
    type="button"
    className={buttonClass('quiet', 'px-2.5 aria-pressed:bg-accent-soft aria-pressed:text-accent')}
    {...props}
  />
);

type SegmentsProps<Id extends string> = {
  label: string;
  /** Otherwise only for screen readers. */ isLabelShown?: boolean;
  choices: readonly (readonly [id: Id, name: string])[];
  chosen: Id;
  onChoose: (id: Id) => void;
};

/** A segmented control. */
export function Segments<Id extends string>({
  label,
  isLabelShown = false,
  choices,
  chosen,
  onChoose,
}: SegmentsProps<Id>) {
  return (
    <div role="group" aria-label={label} className="flex flex-wrap items-center gap-0.5">
      {isLabelShown && (
        <span aria-hidden="true" className="pr-1.5 text-muted">
          {label}
        </span>
      )}
      {choices.map(([id, name]) => (
        <Segment key={id} aria-pressed={id === chosen} onClick={() => onChoose(id)}>
          {name}
        </Segment>
      ))}
    </div>
  );
}
