import type { RELAYED_ROUTES, RelayedRoute } from '#db/limits/limits.ts';
import { Choices } from '../../ui/choices.tsx';
import { Checkbox, SelectField } from '../../ui/field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import type { UpstreamForm } from './upstream-form.ts';

/** As the server knows them: a compiler says when that has changed. */
const ROUTES: typeof RELAYED_ROUTES = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
];

type MoreTermsProps = {
  form: UpstreamForm;
  /** The routes of the dialect; null: not known here. */ usual: readonly RelayedRoute[] | null;
  onChange: (part: Partial<UpstreamForm>) => void;
  error: unknown;
};

/** What most upstreams are well without. */
export function MoreTerms({ form, usual, onChange, error }: MoreTermsProps) {
  const { routes, retries, on_client_disconnect: onClientDisconnect, token_limit: tokenLimit } = form;
  const count = [routes !== null, retries > 0, onClientDisconnect !== 'cancel', tokenLimit !== ''].filter(
    Boolean,
  ).length;
  const chosen = routes ?? usual ?? [];
  const toggle = (route: RelayedRoute): void =>
    onChange({ routes: ROUTES.filter((each) => chosen.includes(each) !== (each === route)) });
  return (
    <details className="rounded-lg border border-line" open={count > 0 || undefined}>
      <summary className="px-3 py-2 font-medium">
        Retries, routes and more{' '}
        <span className="font-normal text-muted">{count === 0 ? 'as usual' : `${count} set`}</span>
      </summary>
      <div className="flex flex-col gap-5 border-t border-line p-3">
        <SelectField
          label="Retries"
          value={String(retries)}
          onChange={({ target }) => onChange({ retries: Number(target.value) })}
          hint="Of a call that failed there, before the first byte of its reply, where nobody else can take over. Most clients try again by themselves."
        >
          {['None', 'One', 'Two', 'Three'].map((name, number) => (
            <option key={name} value={number}>
              {name}
            </option>
          ))}
        </SelectField>
        <Choices
          legend="When a client leaves in the middle"
          value={onClientDisconnect}
          onChange={(value) => onChange({ on_client_disconnect: value })}
          choices={[
            {
              value: 'cancel',
              label: 'Cancel the call there',
              hint: 'It costs no more. What it has used is counted by what was relayed.',
            },
            {
              value: 'drain',
              label: 'Read it to its end',
              hint: 'It goes on costing, and its cost is known to the token.',
            },
          ]}
        />
        <fieldset className="min-w-0">
          <legend className="mb-1.5 font-medium">Routes that it speaks</legend>
          <div className="flex flex-col gap-2">
            <Checkbox
              label="Those that are usual for it"
              checked={routes === null}
              onChange={({ target }) =>
                onChange({
                  routes: target.checked ? null : [...(usual ?? ['/v1/chat/completions' as const])],
                })
              }
            />
            {routes !== null && (
              <div className="flex flex-col gap-2 pl-6">
                {ROUTES.map((route) => (
                  <Checkbox
                    key={route}
                    label={<code className="font-mono text-xs">{route}</code>}
                    checked={chosen.includes(route)}
                    onChange={() => toggle(route)}
                  />
                ))}
              </div>
            )}
            {routes !== null && fieldError(error, 'terms.routes') !== null && (
              <p role="alert" className="text-xs text-bad">
                {fieldError(error, 'terms.routes')}
              </p>
            )}
          </div>
        </fieldset>
        <SelectField
          label="Limit of a reply"
          value={tokenLimit}
          onChange={({ target }) => onChange({ token_limit: target.value as UpstreamForm['token_limit'] })}
          hint="Where a limit is set for calls that come without one, which hard quotas need."
        >
          <option value="">In the member that is usual for it</option>
          <option value="max_tokens">In max_tokens</option>
          <option value="max_completion_tokens">In max_completion_tokens</option>
        </SelectField>
      </div>
    </details>
  );
}
