import { type ReactNode, useId } from 'react';

/** One of two: all there is, or only what is listed beneath. */
export function Narrowing({ legend, all, some = 'Only these', isNarrowed, onChange, children }: { legend: string; /** What it means not to narrow. */ all: string; some?: string; isNarrowed: boolean; onChange: (isNarrowed: boolean) => void; children: ReactNode }) {
  const name = useId();
  return (
    <fieldset className="flex min-w-0 flex-col gap-1.5">
      <legend className="mb-1 font-medium">{legend}</legend>
      <div className="flex flex-wrap gap-x-5 gap-y-1">
        {[false, true].map((narrowed) => (
          <label key={String(narrowed)} className="flex items-center gap-2">
            <input type="radio" name={name} checked={isNarrowed === narrowed} onChange={() => onChange(narrowed)} className="size-4 accent-(--accent)" />
            {narrowed ? some : all}
          </label>
        ))}
      </div>
      {isNarrowed && children}
    </fieldset>
  );
}
