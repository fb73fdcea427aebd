import { type ReactNode, useState } from 'react';
import { showCount } from '../../lib/format/show.ts';
import { TextField } from '../form/field.tsx';
import { readAmount, readDollars, writeDollars } from './amounts.ts';

type Unit = 'count' | 'nanousd';
const UNITS: Record<
  Unit,
  { read: (text: string) => number | null; show: (value: number) => string; invalid: string }
> = {
  count: {
    read: readAmount,
    show: showCount,
    invalid: 'Enter a whole number, such as 60, 250k or 1,000,000.',
  },
  nanousd: { read: readDollars, show: writeDollars, invalid: 'Enter an amount in dollars, such as 12.50.' },
};

type AmountFieldProps = {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | null | undefined;
  /** Undefined if empty. */
  value: number | undefined;
  onChange: (value: number | undefined) => void;
  unit?: Unit;
  placeholder?: string;
  required?: boolean;
  className?: string;
};

/** A whole number or an amount of money as typed text. Invalid text blocks the form. */
export function AmountField({ value, onChange, unit = 'count', ...rest }: AmountFieldProps) {
  const { read, show, invalid } = UNITS[unit];
  const [text, setText] = useState(value === undefined ? '' : show(value));
  return (
    <TextField
      {...rest}
      inputMode="decimal"
      autoComplete="off"
      value={text}
      onChange={({ target }) => {
        const amount = target.value.trim() === '' ? undefined : read(target.value);
        target.setCustomValidity(amount === null ? invalid : '');
        setText(target.value);
        if (amount !== null) onChange(amount);
      }}
      onBlur={() => {
        const amount = read(text);
        if (amount !== null) setText(show(amount));
      }}
    />
  );
}
