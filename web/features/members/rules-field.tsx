import { useQuery } from '@tanstack/react-query';
import type { IdentityRule } from '#server/contract/members.ts';
import type { Role } from '#db/events/parts.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { Select } from '../../ui/form/field.tsx';
import { ROLE_NAMES } from './roles.ts';

const BOX =
  'w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 text-sm placeholder:text-muted';

const ROW = [
  'grid grid-cols-[1fr_auto] gap-2 rounded-lg border border-line p-2',
  'sm:grid-cols-[1fr_9rem_1fr_auto] sm:border-0 sm:p-0',
].join(' ');

/** The rules of a provider, in their order. An empty group is everyone. */
export function RulesField({
  rules,
  onChange,
}: {
  rules: readonly IdentityRule[];
  onChange: (rules: IdentityRule[]) => void;
}) {
  const { data: accounts = [] } = useQuery(accountsQuery);
  const change = (index: number, part: Partial<IdentityRule>): void =>
    onChange(rules.map((rule, each) => (each === index ? { ...rule, ...part } : rule)));
  return (
    <fieldset className="min-w-0">
      <legend className="font-medium">Rules</legend>
      <p className="mb-2 text-xs text-muted">
        The first rule with one of a person’s groups decides. Without one they have no access, and lose it at
        their next sign-in.
      </p>
      <ol className="flex flex-col gap-3">
        {rules.map(({ group, role, account }, index) => (
          <li key={index} className={ROW}>
            <input
              aria-label={`Group of rule ${index + 1}`}
              className={BOX}
              maxLength={200}
              placeholder="Everyone"
              value={group ?? ''}
              onChange={({ target }) => change(index, { group: target.value })}
            />
            <Select
              aria-label={`Role of rule ${index + 1}`}
              className="max-sm:col-start-1"
              value={role}
              onChange={({ target }) => change(index, { role: target.value as Role })}
            >
              {(Object.keys(ROLE_NAMES) as Role[]).map((each) => (
                <option key={each} value={each}>
                  {ROLE_NAMES[each]}
                </option>
              ))}
            </Select>
            <Select
              aria-label={`Account of rule ${index + 1}`}
              className="max-sm:col-start-1"
              value={account ?? ''}
              onChange={({ target }) => change(index, { account: target.value === '' ? null : target.value })}
            >
              <option value="">A new account each</option>
              {accounts.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </Select>
            <IconButton
              icon="close"
              label={`Remove rule ${index + 1}`}
              className="max-sm:col-start-2 max-sm:row-start-1"
              disabled={rules.length === 1}
              onClick={() => onChange(rules.filter((_, each) => each !== index))}
            />
          </li>
        ))}
      </ol>
      <Button
        icon="plus"
        className="mt-2"
        onClick={() => onChange([...rules, { group: '', role: 'member', account: null }])}
      >
        Add rule
      </Button>
    </fieldset>
  );
}
