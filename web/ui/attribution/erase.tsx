import { type FormEvent, useState } from 'react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';
import {
  type Attributed,
  ATTRIBUTION_KEY,
  KIND_NAMES,
  shortenPseudonym,
  useAttributed,
} from '../../lib/api/attribution.ts';
import { Button } from '../button.tsx';
import { Copyable } from '../copy.tsx';
import { DialogActions } from '../dialog/dialog.tsx';
import { TextField } from '../form/field.tsx';
import { Facts } from '../layout/parts.tsx';
import { FormProblem } from '../problem.tsx';

type EraseProps = {
  attributed: Attributed;
  /** The account's name. */ accountName: string;
  onBack: () => void;
  onDone: (change: Change) => void;
};

/** Erases the value of one end user, session or tag, after it was typed once more. */
export function EraseAttributed({ attributed, accountName, onBack, onDone }: EraseProps) {
  const { account, kind, pseudonym } = attributed;
  const name = useAttributed(attributed);
  const word = KIND_NAMES[kind];
  const expected = name?.value ?? pseudonym;
  const [typed, setTyped] = useState('');
  const queries = useQueryClient();
  const erase = useMutation({
    mutationFn: () =>
      api<Change>('POST', `/api/v1/accounts/${account}/attribution/erase`, { kind, pseudonym }),
    onSuccess: async (change) => {
      onDone(change);
      await queries.invalidateQueries({ queryKey: ATTRIBUTION_KEY });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    erase.mutate();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-5">
      <Facts
        facts={[
          [
            'Value',
            name?.value ?? (
              <span key="value" className="text-muted">
                No value is stored
              </span>
            ),
          ],
          [
            'Pseudonym',
            <Copyable key="id" text={pseudonym} shown={shortenPseudonym(pseudonym)} what="pseudonym" />,
          ],
          ['Account', accountName],
        ]}
      />
      <Consequences
        erased={[
          `The readable value of this ${word}, on all servers. This can’t be undone.`,
          'Later requests with the value have the same pseudonym, and it is not stored again.',
        ]}
        kept={[
          'Requests, usage, cost and limits, under the pseudonym. No figure changes.',
          'The event log and its proofs. They never contained the value.',
          'Other values of the same person: erase each session and tag that names them.',
        ]}
      />
      <TextField
        label={`Type the ${name?.value == null ? 'pseudonym' : word} to confirm`}
        hint={<span className="break-all">{expected}</span>}
        required
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
      />
      <FormProblem error={erase.error} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button type="submit" look="danger" disabled={typed.trim() !== expected} busy={erase.isPending}>
          Erase {word}
        </Button>
      </DialogActions>
    </form>
  );
}

/** What an erasure removes, and what remains. */
export function Consequences({ erased, kept }: { erased: readonly string[]; kept: readonly string[] }) {
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      {(
        [
          ['Erased', erased],
          ['Kept', kept],
        ] as const
      ).map(([title, texts]) => (
        <section key={title}>
          <h3 className="mb-1 font-medium">{title}</h3>
          <ul className="flex list-disc flex-col gap-1 pl-5">
            {texts.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
