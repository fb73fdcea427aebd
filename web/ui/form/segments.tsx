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

/** The frame of choices that belong together. */
export const SegmentGroup = ({ className = '', ...props }: ComponentProps<'div'>) => (
  <div
    role="group"
    className={[
      'inline-flex w-fit max-w-full flex-wrap items-center rounded-lg border border-line bg-surface',
      className,
    ].join(' ')}
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
    <div className="flex flex-wrap items-center gap-2">
      {isLabelShown && (
        <span aria-hidden="true" className="text-muted">
          {label}
        </span>
      )}
      <SegmentGroup aria-label={label}>
        {choices.map(([id, name]) => (
          <Segment key={id} aria-pressed={id === chosen} onClick={() => onChoose(id)}>
            {name}
          </Segment>
        ))}
      </SegmentGroup>
    </div>
  );
}
