import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { PriceTerms } from '#db/pricing/parts.ts';
import { api } from '../../lib/api/api.ts';
import { modelsQuery, plansQuery, pricesQuery } from '../../lib/api/queries.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { CheckMonth } from '../../ui/backtest/check-month.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { PlanCharges } from './plan-charges.tsx';
import {
  chargesByPlan,
  DEFAULTS,
  exampleCost,
  NO_PRICE,
  PRICE_FIELDS,
  type PriceField,
  priceFor,
  readTyped,
  typedFrom,
  type TypedPrices,
  withPrice,
} from './price-match.ts';

/** The model to price; empty if not chosen yet. */
export type PriceWanted = { model: string; plan: string | null; now: PriceTerms | null };

const LABELS: Record<PriceField, readonly [label: string, hint: string]> = {
  input: ['Input', 'Prompt tokens'],
  cache_read: ['Cache read', 'Defaults to input'],
  cache_write_5m: ['Cache write', 'Defaults to input'],
  output: ['Output', 'Reply tokens'],
  reasoning: ['Reasoning', 'Defaults to output'],
};

/** Sets the cost price of a model or of a name prefix for new requests, or the sell price of a plan. */
export function SetPrice({ wanted, onClose }: { wanted: PriceWanted; onClose: () => void }) {
  const [model, setModel] = useState(wanted.model);
  const [plan, setPlan] = useState(wanted.plan);
  const [now, setNow] = useState(wanted.now);
  const [typed, setTyped] = useState<TypedPrices>(now === null ? NO_PRICE : typedFrom(now.base));
  const [isSent, setSent] = useState(false);
  const { data: prices = [] } = useQuery(pricesQuery);
  const { data: plans = [] } = useQuery(plansQuery);
  const read = readTyped(typed, now);
  const name = model.trim();
  const next = 'terms' in read && name !== '' ? withPrice(prices, { model: name, plan, ...read }) : prices;
  const cost = priceFor(name, next);
  /** Shows the price that this one replaces; a plan without one of its own starts from the cost. */
  const choosePlan = (chosen: string | null): void => {
    const { base, rules } = priceFor(name, prices, chosen) ?? priceFor(name, prices) ?? {};
    const terms = base === undefined ? null : rules === undefined ? { base } : { base, rules };
    setPlan(chosen);
    setNow(terms);
    setTyped(terms === null ? NO_PRICE : typedFrom(terms.base));
  };
  const wrong = 'wrong' in read && isSent ? read.wrong : {};
  const put = useChange(
    (terms: PriceTerms) =>
      api<Change>('PUT', '/api/v1/prices', {
        model: name,
        ...(plan === null ? {} : { plan }),
        ...terms,
      }),
    {
      done: plan === null ? `Price of ${name} set.` : `Sell price of ${name} on plan ${plan} set.`,
      invalidates: [pricesQuery.queryKey, modelsQuery.queryKey],
      onDone: onClose,
    },
  );
  const changes =
    'terms' in read && name !== ''
      ? { prices: [{ model: name, ...(plan === null ? {} : { plan }), ...read.terms }] }
      : null;
  const send = (event: FormEvent): void => {
    event.preventDefault();
    setSent(true);
    if ('terms' in read) put.mutate(read.terms);
  };
  return (
    <Dialog onClose={onClose} title={wanted.model === '' ? 'Set price' : <>Price of {wanted.model}</>}>
      <form onSubmit={send} className="flex flex-col gap-4">
        <TextField
          label="Model"
          value={model}
          onChange={({ target }) => setModel(target.value)}
          required
          maxLength={256}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          className="font-mono"
          hint={
            <>
              A model name, or a prefix with <code className="font-mono text-xs">*</code>, such as{' '}
              <code className="font-mono">gpt-4o*</code>. An exact name takes precedence over a prefix.
            </>
          }
          error={fieldError(put.error, 'model')}
        />
        <SelectField
          label="Price"
          value={plan ?? ''}
          onChange={({ target }) => choosePlan(target.value === '' ? null : target.value)}
          hint={
            plan === null
              ? 'What the provider charges. Accounts are charged this, with the mark-up of their plan.'
              : `What accounts on plan ${plan} are charged. The cost and its mark-up don’t count for them.`
          }
          error={fieldError(put.error, 'plan')}
        >
          <option value="">Cost price, of the provider</option>
          {plans
            .filter((each) => each.state === 'active' || each.name === plan)
            .map((each) => (
              <option key={each.name} value={each.name}>
                Sell price on plan {each.name}
              </option>
            ))}
        </SelectField>
        <fieldset className="min-w-0">
          <legend className="mb-2 font-medium">US dollars per million tokens</legend>
          <div className="grid grid-cols-2 gap-3 sm:grid-cols-4">
            {PRICE_FIELDS.map((field) => (
              <TextField
                key={field}
                label={LABELS[field][0]}
                hint={LABELS[field][1]}
                error={wrong[field] ?? fieldError(put.error, `base.${field}`)}
                inputMode="decimal"
                autoComplete="off"
                placeholder={typed[DEFAULTS[field] ?? field] || '2.50'}
                required={field === 'input'}
                value={typed[field]}
                onChange={({ target }) => setTyped({ ...typed, [field]: target.value })}
              />
            ))}
          </div>
        </fieldset>
        {'terms' in read ? (
          <PlanCharges
            cost={cost && exampleCost(cost)}
            charges={name === '' ? [] : chargesByPlan(name, next, plans)}
          />
        ) : (
          <p className="min-h-10 rounded-lg bg-sunken px-3 py-2 text-muted">
            Enter prices to see an example.
          </p>
        )}
        {now?.rules !== undefined && (
          <p className="text-xs text-muted">
            The {showCount(now.rules.length)} rules of this price stay as they are. To change them or other
            parts, run <code className="font-mono text-xs">daybook price set</code>.
          </p>
        )}
        <p className="text-xs text-muted">
          Applies to new requests. Recorded requests keep the price they were charged at.
        </p>
        <CheckMonth key={JSON.stringify(changes)} changes={changes} />
        <FormProblem
          error={put.error}
          fields={['model', 'plan', ...PRICE_FIELDS.map((field) => `base.${field}`)]}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={put.isPending}>
            Set price
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
