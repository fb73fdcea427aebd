import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { BillingTerms } from '#db/events/billing-events.ts';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import { useIsAdministrator } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { TextArea, TextField } from '../../ui/form/field.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card, Facts } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { useChange } from '../../ui/use-change.ts';
import { issuerQuery } from './queries.ts';

/** Who issues invoices, their number series and the display currency. */
export function IssuerCard() {
  const query = useQuery(issuerQuery);
  const isAdministrator = useIsAdministrator();
  const [isOpen, setIsOpen] = useState(false);
  return (
    <Card
      title="Issuer"
      actions={
        isAdministrator &&
        query.data !== undefined && <Button onClick={() => setIsOpen(true)}>Edit issuer</Button>
      }
    >
      <Loaded query={query} title="Couldn’t load the issuer" height="h-24">
        {({ terms }) =>
          terms === null ? (
            <p className="text-muted">No issuer set. Invoices need one.</p>
          ) : (
            <Facts
              facts={[
                ['Name', terms.name],
                ['Address', terms.address.length > 0 && terms.address.join(', ')],
                ['Tax', terms.tax ?? null],
                ['Number series', `${terms.series}0001, …`],
                [
                  'Currency',
                  terms.currency === undefined
                    ? 'USD'
                    : `${terms.currency.code}, 1 USD = ${terms.currency.rate} ${terms.currency.code}`,
                ],
              ]}
            />
          )
        }
      </Loaded>
      {isOpen && <IssuerDialog terms={query.data?.terms ?? null} onClose={() => setIsOpen(false)} />}
    </Card>
  );
}

const DIGITS = 2;

function IssuerDialog({ terms, onClose }: { terms: BillingTerms | null; onClose: () => void }) {
  const [name, setName] = useState(terms?.name ?? '');
  const [address, setAddress] = useState(terms?.address.join('\n') ?? '');
  const [tax, setTax] = useState(terms?.tax ?? '');
  const [series, setSeries] = useState(terms?.series ?? 'INV-');
  const [code, setCode] = useState(terms?.currency?.code ?? '');
  const [rate, setRate] = useState(terms?.currency?.rate ?? '');
  const put = useChange(
    () =>
      api<Change>('PUT', '/api/v1/issuer', {
        name,
        address: address.split('\n').filter((line) => line.trim() !== ''),
        series,
        ...(tax.trim() === '' ? {} : { tax }),
        ...(code === '' ? {} : { currency: { code, rate, digits: terms?.currency?.digits ?? DIGITS } }),
      }),
    { done: 'Issuer set.', invalidates: [issuerQuery.queryKey, ['statements']], onDone: onClose },
  );
  return (
    <Dialog title="Edit issuer" onClose={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          put.mutate();
        }}
      >
        <TextField
          label="Name"
          value={name}
          onChange={({ target }) => setName(target.value)}
          required
          maxLength={200}
        />
        <TextArea
          label="Address"
          rows={3}
          value={address}
          onChange={({ target }) => setAddress(target.value)}
        />
        <TextField
          label="Tax number or note"
          value={tax}
          onChange={({ target }) => setTax(target.value)}
          maxLength={200}
        />
        <TextField
          label="Number series"
          value={series}
          onChange={({ target }) => setSeries(target.value)}
          required
          maxLength={20}
          hint="The text before numbers, such as INV-2027-."
        />
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="Display currency"
            value={code}
            onChange={({ target }) => setCode(target.value.toUpperCase())}
            maxLength={3}
            pattern="[A-Z]{3}"
            placeholder="USD"
            hint="Empty: US dollars."
          />
          <TextField
            label="Units for 1 USD"
            value={rate}
            onChange={({ target }) => setRate(target.value)}
            required={code !== ''}
            inputMode="decimal"
            placeholder="0.92"
            hint="A fixed rate."
          />
        </div>
        <FormProblem error={put.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={put.isPending}>
            Save issuer
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}
