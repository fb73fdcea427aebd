import type { PlannedDifference } from '#server/control/desired-state.ts';
import type { FieldChange } from '#server/decide/apply.ts';

/** Differences between a file and a relay, as text. Pure. */

const VALUE_CHARACTERS_MAX = 200;
const SUBJECTS = { upstreams: 'upstream', models: 'model', plans: 'plan', prices: 'price' };
const SIGNS = { added: '+', changed: '~', removed: '-' };

/** One line for each object, followed by one line for each field. */
export function showDifferences(differences: readonly PlannedDifference[]): string {
  return differences
    .flatMap(({ section, name, change, fields }) => [
      `${SIGNS[change]} ${SUBJECTS[section]} "${name}"`,
      ...fields.map(showField),
    ])
    .join('\n');
}

/** The same with the changes that others have made, newest first. */
export function showDrift(differences: readonly PlannedDifference[]): string {
  return differences
    .map((each) =>
      [
        showDifferences([each]),
        ...each.changed_by.map(
          ({ type, actor, at, position }) => `    ${type} by ${actor} at ${at}, position ${position}`,
        ),
      ].join('\n'),
    )
    .join('\n');
}

function showField(change: FieldChange): string {
  const { field, before, after } = change;
  if (!('before' in change)) return `    + ${field}: ${showValue(after)}`;
  if (!('after' in change)) return `    - ${field}: ${showValue(before)}`;
  const isSame = showValue(before) === showValue(after);
  if (isSame) return `    ~ ${field}: replaced, also ${showValue(after)}`;
  return `    ~ ${field}: ${showValue(before)} -> ${showValue(after)}`;
}

function showValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
}
