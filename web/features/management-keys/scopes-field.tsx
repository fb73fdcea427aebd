import {
  MANAGEMENT_RESOURCES,
  MANAGEMENT_SCOPES,
  type ManagementResource,
  type ManagementScope,
} from '#db/events/management-scopes.ts';
import { SelectField } from '../../ui/form/field.tsx';

type Access = 'none' | 'read' | 'write';
export type Accesses = Record<ManagementResource, Access>;

export const NO_ACCESS = Object.fromEntries(
  MANAGEMENT_RESOURCES.map((resource) => [resource, 'none']),
) as Accesses;

/** The scopes that the choices stand for; `write` includes `read`. */
export const scopesOf = (accesses: Accesses): ManagementScope[] =>
  MANAGEMENT_SCOPES.filter((scope) => {
    const [resource, action] = scope.split(':') as [ManagementResource, Access];
    return accesses[resource] === action;
  });

const LABELS: Record<ManagementResource, string> = {
  accounts: 'Accounts',
  keys: 'API keys',
  plans: 'Plans',
  upstreams: 'Upstreams',
  prices: 'Prices and models',
  usage: 'Usage and billing',
  audit: 'Audit log and status',
};

/** Selects what a management key may read and change. */
export function ScopesField({ value, onChange }: { value: Accesses; onChange: (value: Accesses) => void }) {
  return (
    <fieldset className="min-w-0">
      <legend className="mb-1.5 font-medium">Scopes</legend>
      <div className="grid gap-3 sm:grid-cols-2">
        {MANAGEMENT_RESOURCES.map((resource) => (
          <SelectField
            key={resource}
            label={LABELS[resource]}
            value={value[resource]}
            onChange={({ target }) => onChange({ ...value, [resource]: target.value as Access })}
          >
            <option value="none">No access</option>
            <option value="read">Read</option>
            {resource !== 'audit' && <option value="write">Read and write</option>}
          </SelectField>
        ))}
      </div>
    </fieldset>
  );
}
