import type { RELAYED_ROUTES, RelayedRoute } from '#db/limits/limits.ts';
import { Choices } from '../../ui/form/choices.tsx';
import { Checkbox, SelectField } from '../../ui/form/field.tsx';
import { fieldError } from '../../ui/problem.tsx';
import type { UpstreamForm } from './upstream-form.ts';

/** The server's routes. The compiler reports a difference. */
const ROUTES: typeof RELAYED_ROUTES = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
  '/v1/moderations',
  '/v1/rerank',
  '/v1/images/generations',
  '/v1/images/edits',
  '/v1/images/variations',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
  '/v1/audio/speech',
];

type AdvancedSettingsProps = {
  form: UpstreamForm;
  /** The routes of the dialect; null if unknown. */ defaults: readonly RelayedRoute[] | null;
  onChange: (part: Partial<UpstreamForm>) => void;
  error: unknown;
};

/** Settings that most upstreams don't need. */
export function AdvancedSettings({ form, defaults, onChange, error }: AdvancedSettingsProps) {
  const { routes, retries, on_client_disconnect: onClientDisconnect, token_limit: tokenLimit } = form;
  const count = [routes !== null, retries > 0, onClientDisconnect !== 'cancel', tokenLimit !== ''].filter(
    Boolean,
  ).length;
  const chosen = routes ?? defaults ?? [];
  const toggle = (route: RelayedRoute): void =>
    onChange({ routes: ROUTES.filter((each) => chosen.includes(each) !== (each === route)) });
  return (
    <details className="rounded-lg border border-line" open={count > 0 || undefined}>
      <summary className="px-3 py-2 font-medium">
        Advanced settings{' '}
        <span className="font-normal text-muted">{count === 0 ? 'Defaults' : `${count} set`}</span>
      </summary>
      <div className="flex flex-col gap-5 border-t border-line p-3">
        <SelectField
          label="Retries"
          value={String(retries)}
          onChange={({ target }) => onChange({ retries: Number(target.value) })}
          hint="Before the first byte, if there is no fallback. Most clients retry on their own."
        >
          {['None', 'One', 'Two', 'Three'].map((name, number) => (
            <option key={name} value={number}>
              {name}
            </option>
          ))}
        </SelectField>
        <Choices
          legend="When a client disconnects"
          value={onClientDisconnect}
          onChange={(value) => onChange({ on_client_disconnect: value })}
          choices={[
            {
              value: 'cancel',
              label: 'Cancel the request',
              hint: 'Stops further cost. Usage is counted by the relay.',
            },
            {
              value: 'drain',
              label: 'Read the reply to its end',
              hint: 'Cost continues, but the provider reports exact usage.',
            },
          ]}
        />
        <fieldset className="min-w-0">
          <legend className="mb-1.5 font-medium">Routes</legend>
          <div className="flex flex-col gap-2">
            <Checkbox
              label="Default routes of the provider"
              checked={routes === null}
              onChange={({ target }) =>
                onChange({
                  routes: target.checked ? null : [...(defaults ?? ['/v1/chat/completions' as const])],
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
              <p role="alert" className="text-xs text-danger">
                {fieldError(error, 'terms.routes')}
              </p>
            )}
          </div>
        </fieldset>
        <SelectField
          label="Token limit parameter"
          value={tokenLimit}
          onChange={({ target }) => onChange({ token_limit: target.value as UpstreamForm['token_limit'] })}
          hint="Used to cap replies under a hard limit."
        >
          <option value="">Default</option>
          <option value="max_tokens">max_tokens</option>
          <option value="max_completion_tokens">max_completion_tokens</option>
        </SelectField>
      </div>
    </details>
  );
}
