import { type Attributed, shortenPseudonym, useAttributed } from '../../lib/api/attribution.ts';
import type { AttributionName } from '#server/contract/attribution.ts';

/** The value where it may be seen and is stored, and the shortened pseudonym otherwise. */
export function AttributedText({
  pseudonym,
  name,
}: {
  pseudonym: string;
  /** Undefined: not known. */ name: AttributionName | undefined;
}) {
  if (name?.value != null) return <span title={`Pseudonym ${pseudonym}`}>{name.value}</span>;
  return (
    <span className="whitespace-nowrap" title={titleOf(pseudonym, name)}>
      <code className="font-mono text-xs">{shortenPseudonym(pseudonym)}</code>
      {name?.erased === true && <span className="text-xs text-muted"> erased</span>}
    </span>
  );
}

function titleOf(pseudonym: string, name: AttributionName | undefined): string {
  if (name?.erased === true) return `Pseudonym ${pseudonym}. The value was erased on request.`;
  return `Pseudonym ${pseudonym}${name === undefined ? '' : '. No value is stored.'}`;
}

/** {@link AttributedText} of one that is looked up with the others on the screen. */
export function AttributedValue({ of }: { of: Attributed }) {
  return <AttributedText pseudonym={of.pseudonym} name={useAttributed(of)} />;
}
