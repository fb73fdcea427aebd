import { useState } from 'react';
import type { PlanTerms } from '#db/events/events.ts';
import { Checkbox, SelectField, TextField } from '../form/field.tsx';
import { fieldError } from '../problem.tsx';

type ChargingTerms = Pick<PlanTerms, 'prepaid' | 'unpriced_models' | 'markup'>;

/** How the requests of a plan's accounts are charged: prepaid, models without a price, mark-up. */
export function ChargingField({
  value,
  onChange,
  isOverride,
  errors,
}: {
  value: ChargingTerms;
  onChange: (change: ChargingTerms) => void;
  isOverride: boolean;
  errors: unknown;
}) {
  const [markup, setMarkup] = useState(value.markup === undefined ? '' : String(value.markup / 100));
  const unset = isOverride ? 'Plan default' : null;
  return (
    <fieldset className="flex min-w-0 flex-col gap-3">
      <legend className="mb-1 font-medium">Charging</legend>
      {isOverride ? (
        <SelectField
          label="Prepaid balance"
          value={value.prepaid === undefined ? '' : String(value.prepaid)}
          onChange={({ target }) =>
            onChange({ prepaid: target.value === '' ? undefined : target.value === 'true' })
          }
        >
          <option value="">Plan default</option>
          <option value="true">Prepaid: requests are rejected when top-ups are used up</option>
          <option value="false">Not prepaid</option>
        </SelectField>
      ) : (
        <Checkbox
          label="Prepaid"
          hint="The cost of an account is limited to the sum of its top-ups."
          checked={value.prepaid === true}
          onChange={({ target }) => onChange({ prepaid: target.checked ? true : undefined })}
        />
      )}
      <div className="grid gap-3 sm:grid-cols-2">
        <SelectField
          label="Models without a price"
          value={value.unpriced_models ?? ''}
          onChange={({ target }) =>
            onChange({
              unpriced_models:
                target.value === '' ? undefined : (target.value as ChargingTerms['unpriced_models']),
            })
          }
          hint="Under a cost quota or a prepaid balance."
          error={fieldError(errors, 'terms.unpriced_models')}
        >
          {isOverride ? (
            <>
              <option value="">Plan default</option>
              <option value="reject">Reject requests</option>
            </>
          ) : (
            <option value="">Reject requests</option>
          )}
          <option value="free">Count as $0, marked</option>
        </SelectField>
        <TextField
          label="Mark-up (percent)"
          inputMode="decimal"
          autoComplete="off"
          value={markup}
          placeholder={unset ?? '0'}
          hint="Added to the cost of models without a sell price. Below zero: a discount."
          onChange={({ target }) => {
            setMarkup(target.value);
            const basisPoints = readPercent(target.value);
            target.setCustomValidity(basisPoints === null ? 'Enter a percentage, such as 20 or -5.5.' : '');
            if (basisPoints !== null) onChange({ markup: basisPoints });
          }}
          error={fieldError(errors, 'terms.markup')}
        />
      </div>
    </fieldset>
  );
}

/** Basis points of a percentage with at most two decimals; undefined: empty; null: no percentage. */
function readPercent(text: string): number | undefined | null {
  const trimmed = text.trim().replace(/\s*%$/, '');
  if (trimmed === '') return undefined;
  return /^-?\d{1,6}(\.\d{1,2})?$/.test(trimmed) ? Math.round(Number(trimmed) * 100) : null;
}
