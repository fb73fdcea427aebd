import { useState } from 'react';
import type { KeyTerms } from '#db/events/events.ts';
import { Choices } from '../form/choices.tsx';
import { TextField } from '../form/field.tsx';
import { ListField } from './list-field.tsx';

type Terms = NonNullable<KeyTerms['attribution']>;
type Kind = keyof Terms;

const CHOICES = [
  { value: 'any', label: 'Optional' },
  { value: 'required', label: 'Required' },
  { value: 'fixed', label: 'Fixed' },
] as const;
type Choice = (typeof CHOICES)[number]['value'];

const WORDS: Record<Kind, { legend: string; placeholder: string; required: string; header: string }> = {
  end_user: {
    legend: 'End user',
    placeholder: 'batch-import',
    required: 'Requests without an end user are rejected. Clients send it in the header',
    header: 'x-daybook-user',
  },
  session: {
    legend: 'Session',
    placeholder: 'nightly',
    required: 'Requests without a session are rejected. Coding agents send one; others use the header',
    header: 'x-daybook-session',
  },
  tags: {
    legend: 'Tags',
    placeholder: 'team:search, nightly',
    required: 'Requests without a tag are rejected. Clients send up to eight in the header',
    header: 'x-daybook-tags',
  },
};
const KINDS = ['end_user', 'session', 'tags'] as const;
const BYTES_MAX = 256;
const TEXT = 'Enter 1 to 256 bytes without control characters.';
const ERRORS: Record<Kind, string> = {
  end_user: TEXT,
  session: TEXT,
  tags: 'Enter one to eight tags, each of at most 256 bytes.',
};

/** Whether requests of a key must name an end user, a session and tags, or have fixed ones. */
export function AttributionField({
  value = {},
  onChange,
  isWrong,
}: {
  value: Terms | undefined;
  onChange: (value: Terms | undefined) => void;
  isWrong: (kind: Kind) => boolean;
}) {
  const error = (kind: Kind): string | null => (isWrong(kind) ? ERRORS[kind] : null);
  const set = (kind: Kind, term: Terms[Kind]): void => {
    const terms = { ...value, [kind]: term };
    const rest = Object.entries(terms).filter(([, each]) => each !== undefined);
    onChange(rest.length === 0 ? undefined : Object.fromEntries(rest));
  };
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1 font-medium">Attribution</legend>
      <p className="mb-3 text-xs text-muted">
        Who requests are made for. Optional: as the client sends it. Fixed: all requests have your value, and
        the client’s is ignored. Fixed values are in the event log and can’t be erased; don’t name a person.
      </p>
      <div className="flex flex-col gap-3 border-l-2 border-line pl-3">
        {KINDS.map((kind) => {
          const term = value[kind];
          const chosen: Choice = term === undefined ? 'any' : term === 'required' ? 'required' : 'fixed';
          const { legend, placeholder, required, header } = WORDS[kind];
          const choose = (choice: Choice): void =>
            set(
              kind,
              choice === 'any'
                ? undefined
                : choice === 'required'
                  ? 'required'
                  : ({ fixed: kind === 'tags' ? [] : '' } as Terms[Kind]),
            );
          return (
            <Choices key={kind} legend={legend} choices={CHOICES} value={chosen} onChange={choose} isInline>
              {chosen === 'required' && (
                <p className="mt-1 text-xs text-muted">
                  {required} <code className="font-mono whitespace-nowrap">{header}</code>.
                </p>
              )}
              {typeof term === 'object' && (
                <div className="mt-1.5">
                  {Array.isArray(term.fixed) ? (
                    <ListField
                      label="Fixed tags"
                      value={term.fixed}
                      onChange={(tags) => set('tags', { fixed: tags })}
                      placeholder={placeholder}
                      hint="Up to eight. Separate with Enter or a comma."
                      error={error(kind)}
                    />
                  ) : (
                    <FixedText
                      legend={legend}
                      placeholder={placeholder}
                      value={term.fixed}
                      onChange={(fixed) => set(kind, { fixed })}
                      error={error(kind)}
                    />
                  )}
                </div>
              )}
            </Choices>
          );
        })}
      </div>
    </fieldset>
  );
}

/** The text as it is typed; reported without spaces around it, as values are compared. */
function FixedText({
  legend,
  placeholder,
  value,
  onChange,
  error,
}: {
  legend: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
  error: string | null;
}) {
  const [typed, setTyped] = useState(value);
  return (
    <TextField
      label={<span className="sr-only">Fixed {legend.toLowerCase()}</span>}
      required
      maxLength={BYTES_MAX}
      autoComplete="off"
      placeholder={placeholder}
      value={typed}
      onChange={({ target }) => {
        setTyped(target.value);
        onChange(target.value.trim());
      }}
      error={error}
    />
  );
}
