import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { KeyTerms, PlanTerms } from '#db/events/events.ts';
import type { Route } from '#db/limits/limits.ts';
import { isByUsage } from '#db/limits/meters.ts';
import { ApiError } from '../../lib/api/api.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { Checkbox } from '../form/field.tsx';
import { fieldError } from '../problem.tsx';
import { AttributionField } from './attribution-field.tsx';
import { AmountField } from './amount-field.tsx';
import { ChargingField } from './charging-field.tsx';
import { ListField } from './list-field.tsx';
import { ObservedRates } from './observed-rates.tsx';
import { Narrowing } from './narrowing.tsx';
import { QuotasField } from './quotas-field.tsx';
import { RepliesField } from './replies-field.tsx';
import { describeTerms, ROUTE_NAMES, type TermsKind } from './summary.ts';

/** The meaning of unset fields by kind. */
const WORDS: Record<TermsKind, { all: (what: string) => string; noLimit: string }> = {
  plan: { all: (what) => `All ${what}`, noLimit: 'No limit' },
  key: { all: (what) => `All ${what} of the account`, noLimit: 'Account limit' },
  override: { all: () => 'Plan default', noLimit: 'Plan default' },
};

/** Error texts that replace generic ones of the server. */
const ERRORS: Partial<Record<keyof KeyTerms, string>> = {
  networks: 'Enter IP addresses or networks, such as 203.0.113.7 or 10.0.0.0/8.',
};

type TermsEditorProps<Terms extends PlanTerms> = {
  /** The initial terms. To replace them, give the editor a new `key`. */
  terms: Terms;
  onChange: (terms: Terms) => void;
  kind: TermsKind;
  /** The last error. Errors of `terms.…` are shown at their fields. */
  errors?: unknown;
};

/** Whether the editor shows the error at a field. */
export const isTermsError = (error: unknown): boolean =>
  error instanceof ApiError && error.param?.startsWith('terms.') === true;

/**
 * Permissions and limits of a plan, a key or an override, as part of a form. Unchanged fields stay unset.
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
    return error && (ERRORS[field] ?? error);
  };
  /** A list of names. Unset allows all. */
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
        hint: 'Names or patterns with *. Separate with Enter or a comma.',
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
        hint: 'Web origins, such as https://*.example.com. Use none for non-browser clients.',
        suggestions: ['none'],
        read: readOrigin,
      })}
      {kind === 'key' &&
        list('networks', 'Networks', {
          placeholder: '10.0.0.0/8',
          hint: 'Client IP addresses or networks, such as 203.0.113.7 or 2001:db8::/32.',
        })}
      <fieldset className="min-w-0">
        <legend className="mb-1 font-medium">Rate limits</legend>
        <div className="grid gap-3 sm:grid-cols-3">
          {amount('requests_per_minute', 'Requests per minute')}
          {amount('tokens_per_minute', 'Tokens per minute')}
          {amount('concurrent_requests', 'Concurrent requests')}
        </div>
        <ObservedRates terms={now} onChange={(observe) => set({ observe })} />
      </fieldset>
      {kind === 'override' ? (
        <Narrowing
          legend="Account quotas"
          all={all('quotas')}
          some="Custom"
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
      {kind !== 'key' && (
        <ChargingField
          value={terms}
          onChange={(change) => set(change as Partial<KeyTerms>)}
          isOverride={kind === 'override'}
          errors={errors}
        />
      )}
      {kind !== 'key' && (
        <RepliesField
          value={(terms as PlanTerms).keep_replies}
          onChange={(keep_replies) => set({ keep_replies } as Partial<KeyTerms>)}
          isOverride={kind === 'override'}
        />
      )}
      {(countsTokens || now.reply_tokens_max !== undefined) &&
        amount('reply_tokens_max', 'Max reply tokens', 'Caps replies under a token or cost quota.')}
      {kind === 'key' && (
        <AttributionField
          value={now.attribution}
          onChange={(attribution) => set({ attribution })}
          isWrong={(of) => fieldError(errors, `terms.attribution.${of}`) !== null}
        />
      )}
      {kind === 'key' && (
        <Checkbox
          label="Read access to the whole account"
          hint="The key can read usage and requests of all keys of the account. By default only its own."
          checked={now.reads === 'account'}
          onChange={({ target }) => set({ reads: target.checked ? 'account' : undefined })}
        />
      )}
      <p className="rounded-lg bg-sunken px-3 py-2 break-words">
        <span className="text-muted">Summary: </span>
        {describeTerms(now, kind)}
      </p>
    </div>
  );
}

/** Reduces a URL to its origin. */
function readOrigin(text: string): string {
  const trimmed = text.trim().toLowerCase();
  return trimmed.replace(/^(https?:\/\/[^/]+)\/.*$/, '$1');
}
