/** Options of selects. */

/** Options by name. A selected value that is not among them is shown by its id. */
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

/** Options from a record of labels. */
export const WordOptions = ({ words }: { words: Readonly<Record<string, string>> }) => (
  <NamedOptions rows={Object.entries(words).map(([id, name]) => ({ id, name }))} />
);
