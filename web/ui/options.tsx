/** What there is to choose, for within a select. */

/** Rows to choose from by name; one that is chosen and not among them by its id. */
export function NamedOptions({
  rows,
  chosen,
}: {
  rows: readonly { id: string; name: string }[];
  chosen?: string | undefined;
}) {
  return (
    <>
      {chosen !== undefined && !rows.some(({ id }) => id === chosen) && (
        <option value={chosen}>{chosen}</option>
      )}
      {rows.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </>
  );
}

/** Each of a vocabulary in words. */
export const WordOptions = ({ words }: { words: Readonly<Record<string, string>> }) => (
  <NamedOptions rows={Object.entries(words).map(([id, name]) => ({ id, name }))} />
);
