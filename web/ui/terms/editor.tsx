import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { KeyTerms, PlanTerms } from '#db/events/events.ts';
import type { Route } from '#db/limits/limits.ts';
import { isByUsage } from '#db/limits/meters.ts';
import { ApiError } from '../../lib/api.ts';
import { modelsQuery } from '../../lib/models-query.ts';
import { Checkbox } from '../field.tsx';
import { fieldError } from '../problem.tsx';
import { AmountField } from './amount-field.tsx';
import { ListField } from './list-field.tsx';
import { Narrowing } from './narrowing.tsx';
import { QuotasField } from './quotas-field.tsx';
import { describeTerms, ROUTE_NAMES, type TermsKind } from './summary.ts';

/** What a field that is absent means, and so what its emptiness says. */
const WORDS: Record<TermsKind, { all: (what: string) => string; noLimit: string }> = {
  plan: { all: (what) => `All ${what}`, noLimit: 'No limit' },
  key: { all: (what) => `All ${what} of the account`, noLimit: 'As the account' },
  override: { all: () => 'As in the plan', noLimit: 'As in the plan' },
};

/** Where the server only knows that it is none of several forms. */
const WRONG: Partial<Record<keyof KeyTerms, string>> = {
  networks: 'Each must be an address or a network, such as 203.0.113.7 or 10.0.0.0/8.',
};

type TermsEditorProps<Terms extends PlanTerms> = {
  /**
   * What it begins with. Later ones from elsewhere are not taken in: give the editor a new `key` for those.
   */
  terms: Terms;
  onChange: (terms: Terms) => void;
  kind: TermsKind;
  /** What the server said about the last attempt; errors of `terms.…` stand at their fields. */
  errors?: unknown;
};

/** Whether an error is one that the editor shows at a field of its own. */
export const isTermsError = (error: unknown): boolean =>
  error instanceof ApiError && error.param?.startsWith('terms.') === true;

/**
 * Permissions and limits, as a part of a form: of a plan, of a key, or of an account in place of its plan's.
 * What is left as it is stays absent.
 */
export function TermsEditor<Terms extends PlanTerms>({
  terms,
  onChange,
  kind,
  errors,
}: TermsEditorProps<Terms>) {
  const models = useQuery(modelsQuery).data?.map(({ id }) => id) ?? [];
  const now: KeyTerms = terms;
  const { all, noLimit } = WORDS[kind];
  const set = (change: Partial<KeyTerms>): void => {
    const next = Object.entries({ ...now, ...change }).filter(([, value]) => value !== undefined);
    onChange(Object.fromEntries(next) as Terms);
  };
  const errorOf = (field: keyof KeyTerms): string | null => {
    const error = fieldError(errors, `terms.${field}`);
    return error && (WRONG[field] ?? error);
  };
  /** A list of names; absent: not narrowed. */
  const list = (
    field: 'models' | 'origins' | 'networks',
    legend: string,
    more: {
      placeholder: string;
      hint: string;
      suggestions?: readonly string[];
      read?: (text: string) => string;
    },
  ): ReactNode => (
    <Narrowing
      legend={legend}
      all={all(legend.toLowerCase())}
      isNarrowed={now[field] !== undefined}
      onChange={(narrowed) => set({ [field]: narrowed ? [] : undefined })}
    >
      <ListField
        label={legend}
        value={now[field] ?? []}
        onChange={(names) => set({ [field]: names })}
        error={errorOf(field)}
        {...more}
      />
    </Narrowing>
  );
  const amount = (
    field: 'requests_per_minute' | 'tokens_per_minute' | 'concurrent_requests' | 'reply_tokens_max',
    label: string,
    hint?: string,
  ): ReactNode => (
    <AmountField
      label={label}
      hint={hint}
      value={now[field]}
      onChange={(value) => set({ [field]: value })}
      placeholder={noLimit}
      error={errorOf(field)}
    />
  );
  const countsTokens = now.quotas?.some(({ meter }) => isByUsage(meter)) === true;

  return (
    <div className="flex flex-col gap-5">
      {list('models', 'Models', {
        placeholder: 'gpt-4o, claude-*',
        hint: 'Names, with * for any run of characters. Enter or a comma after each.',
        suggestions: models,
      })}
      <Narrowing
        legend="Routes"
        all={all('routes')}
        isNarrowed={now.routes !== undefined}
        onChange={(narrowed) =>
          set({ routes: narrowed ? ['/v1/chat/completions', '/v1/models'] : undefined })
        }
      >
        <div className="grid gap-1.5 sm:grid-cols-2">
          {(Object.keys(ROUTE_NAMES) as Route[]).map((route) => (
            <Checkbox
              key={route}
              label={ROUTE_NAMES[route]}
              hint={route}
              checked={now.routes?.includes(route) === true}
              onChange={({ target }) =>
                set({
                  routes: target.checked
                    ? [...(now.routes ?? []), route]
                    : now.routes?.filter((each) => each !== route),
                })
              }
            />
          ))}
        </div>
      </Narrowing>
      {list('origins', 'Origins', {
        placeholder: 'https://app.example.com',
        hint: 'Web origins; https://*.example.com for all below a host; none for programs, which send no Origin.',
        suggestions: ['none'],
        read: readOrigin,
      })}
      {kind === 'key' &&
        list('networks', 'Networks', {
          placeholder: '10.0.0.0/8',
          hint: 'Addresses and networks that calls may come from, such as 203.0.113.7 or 2001:db8::/32.',
        })}
      <fieldset className="min-w-0">
        <legend className="mb-1 font-medium">Rates</legend>
        <div className="grid gap-3 sm:grid-cols-3">
          {amount('requests_per_minute', 'Requests a minute')}
          {amount('tokens_per_minute', 'Tokens a minute')}
          {amount('concurrent_requests', 'Requests at once')}
        </div>
      </fieldset>
      {kind === 'override' ? (
        <Narrowing
          legend="Quotas of the account"
          all={all('quotas')}
          some="Its own"
          isNarrowed={now.quotas !== undefined}
          onChange={(narrowed) => set({ quotas: narrowed ? [] : undefined })}
        >
          <QuotasField
            value={now.quotas ?? []}
            onChange={(quotas) => set({ quotas })}
            error={errorOf('quotas')}
          />
        </Narrowing>
      ) : (
        <QuotasField
          value={now.quotas ?? []}
          onChange={(quotas) => set({ quotas: quotas.length === 0 ? undefined : quotas })}
          error={errorOf('quotas')}
        />
      )}
      {(countsTokens || now.reply_tokens_max !== undefined) &&
        amount(
          'reply_tokens_max',
          'Longest reply, in tokens',
          'What the model is asked to stop at, under a quota of tokens or cost.',
        )}
      {kind === 'key' && (
        <Checkbox
          label="Reads for its whole account"
          hint="Its usage, requests and live feed then tell of all keys of the account; else of its own calls alone."
          checked={now.reads === 'account'}
          onChange={({ target }) => set({ reads: target.checked ? 'account' : undefined })}
        />
      )}
      <p className="rounded-lg bg-sunken px-3 py-2 break-words">
        <span className="text-muted">In short: </span>
        {describeTerms(now, kind)}
      </p>
    </div>
  );
}

/** An address of a page stands for its origin. */
function readOrigin(text: string): string {
  const trimmed = text.trim().toLowerCase();
  return trimmed.replace(/^(https?:\/\/[^/]+)\/.*$/, '$1');
}
