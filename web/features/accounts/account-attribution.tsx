import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import type {
  AttributionKind,
  AttributionSummary,
  DestroyedAttribution,
} from '#server/contract/attribution.ts';
import { api } from '../../lib/api/api.ts';
import { type Attributed, ATTRIBUTION_KEY, findPseudonym, KIND_NAMES } from '../../lib/api/attribution.ts';
import { capitalized, showCount, showCounted } from '../../lib/format/show.ts';
import { Consequences, EraseAttributed } from '../../ui/attribution/erase.tsx';
import { Button } from '../../ui/button.tsx';
import { DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Empty, Facts } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import type { StepProps } from './use-account-change.ts';

/** The bound of the server's count. */
const COUNTED_MAX = 10_000;
const KINDS = ['end_user', 'session', 'tag'] as const;
const KEY_STATES: Record<AttributionSummary['key'], string> = {
  none: 'None: no request was attributed yet',
  active: 'Active',
  destroyed: 'Destroyed. The next attributed request creates a new one',
};

/** The readable values of an account: erases one of them, or all with the key of its pseudonyms. */
export function AccountAttribution({ account, onBack, onDone }: StepProps) {
  const { id, name } = account;
  const [erasing, setErasing] = useState<Attributed | null>(null);
  const [isDestroying, setDestroying] = useState(false);
  const query = useQuery({
    queryKey: [...ATTRIBUTION_KEY, id],
    queryFn: ({ signal }) =>
      api<AttributionSummary>('GET', `/api/v1/accounts/${id}/attribution`, undefined, signal),
  });
  if (erasing)
    return (
      <EraseAttributed
        attributed={erasing}
        accountName={name}
        onBack={() => setErasing(null)}
        onDone={(change) =>
          onDone({ done: `The value of the ${KIND_NAMES[erasing.kind]} is erased.`, change })
        }
      />
    );
  return (
    <Loaded query={query} title="Couldn’t load attribution" height="h-64">
      {({ key, values }) =>
        isDestroying ? (
          <DestroyKey account={account} onBack={() => setDestroying(false)} onDone={onDone} />
        ) : key === 'none' ? (
          <>
            <Empty icon="people" title="No attribution">
              <p>No request of this account has named an end user, a session or a tag.</p>
            </Empty>
            <DialogActions>
              <Button onClick={onBack}>Back</Button>
            </DialogActions>
          </>
        ) : (
          <div className="flex flex-col gap-6">
            <Facts
              facts={[
                ...KINDS.map((kind): [string, string] => [
                  `Readable ${KIND_NAMES[kind]}s`,
                  `${showCount(values[kind])}${values[kind] === COUNTED_MAX ? ' or more' : ''}`,
                ]),
                ['Key of attribution', KEY_STATES[key]],
              ]}
            />
            {key === 'active' && <FindOne account={id} onFound={setErasing} />}
            <DialogActions>
              <Button onClick={onBack}>Back</Button>
              {key === 'active' && (
                <Button look="danger" icon="warning" onClick={() => setDestroying(true)}>
                  Destroy key
                </Button>
              )}
            </DialogActions>
          </div>
        )
      }
    </Loaded>
  );
}

/** Finds an end user, a session or a tag by its value or pseudonym. */
function FindOne({ account, onFound }: { account: string; onFound: (found: Attributed) => void }) {
  const [kind, setKind] = useState<AttributionKind>('end_user');
  const [text, setText] = useState('');
  const find = useMutation({
    mutationFn: () => findPseudonym(account, kind, text.trim()),
    onSuccess: (found) => {
      if ('pseudonym' in found) onFound({ account, kind, pseudonym: found.pseudonym });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    find.mutate();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-3 rounded-lg border border-line p-4">
      <h3 className="font-medium">Erase a value</h3>
      <div className="grid gap-3 sm:grid-cols-[9rem_1fr]">
        <SelectField
          label="Kind"
          value={kind}
          onChange={({ target }) => setKind(target.value as AttributionKind)}
        >
          <WordOptions
            words={Object.fromEntries(KINDS.map((each) => [each, capitalized(KIND_NAMES[each])]))}
          />
        </SelectField>
        <TextField
          label="Value or pseudonym"
          required
          maxLength={256}
          autoComplete="off"
          spellCheck={false}
          placeholder="ada@example.com"
          value={text}
          onChange={({ target }) => setText(target.value)}
          error={find.data && 'problem' in find.data ? find.data.problem : null}
        />
      </div>
      <FormProblem error={find.error} />
      <div className="flex justify-end">
        <Button type="submit" busy={find.isPending}>
          Continue
        </Button>
      </div>
    </form>
  );
}

/** Erases all values of an account with its key, after the account's name was typed. */
function DestroyKey({ account: { id, name }, onBack, onDone }: StepProps) {
  const [typed, setTyped] = useState('');
  const queries = useQueryClient();
  const destroy = useMutation({
    mutationFn: () => api<DestroyedAttribution>('POST', `/api/v1/accounts/${id}/attribution/destroy-key`),
    onSuccess: async (change) => {
      onDone({
        done: `Key of attribution destroyed, ${showCounted(change.values, 'value')} erased.`,
        change,
      });
      await queries.invalidateQueries({ queryKey: ATTRIBUTION_KEY });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    destroy.mutate();
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-5">
      <Consequences
        erased={[
          'The readable values of all end users, sessions and tags of this account.',
          'The key of its pseudonyms. After that, no one can test whether a pseudonym stands for a value.',
        ]}
        kept={[
          'Requests, usage and cost, under the pseudonyms they have. No figure changes.',
          'The event log and its proofs.',
          'Backups from before, which contain the sealed key: delete them.',
        ]}
      />
      <p className="rounded-lg bg-sunken px-3 py-2">
        Later requests get a new key and other pseudonyms. End users, sessions and tags start at zero in their
        limits.
      </p>
      <TextField
        label="Type the account’s name to confirm"
        hint={name}
        required
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={({ target }) => setTyped(target.value)}
      />
      <FormProblem error={destroy.error} />
      <DialogActions>
        <Button onClick={onBack}>Back</Button>
        <Button type="submit" look="danger" disabled={typed.trim() !== name} busy={destroy.isPending}>
          Destroy key
        </Button>
      </DialogActions>
    </form>
  );
}
