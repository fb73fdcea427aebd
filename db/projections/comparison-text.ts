import { InvalidArgumentError } from 'commander';
import type { Comparison } from '#db/projections/compare.ts';
import type { Projection } from '#db/projections/projection.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';

/** The names of projections on the command line, and the text of a comparison with the log. */

/** @throws {InvalidArgumentError} when there is no projection of this name. */
export function parseProjection(name: string): Projection {
  const found = PROJECTIONS.find((each) => each.name === name);
  if (found === undefined)
    throw new InvalidArgumentError(`There are ${PROJECTIONS.map((each) => each.name).join(', ')}.`);
  return found;
}

/** A comparison with its differing rows, as text. */
export function showComparison({
  projection,
  position,
  rows,
  differing,
  differences,
  faults,
}: Comparison): string {
  const verdict = differing === 0 ? `${rows} rows match the log` : `${differing} rows differ from the log`;
  const lines = differences.map(({ table, key, kind, columns }) => {
    const row = Object.entries(key).map(([column, value]) => `${column}=${value}`);
    const values = columns.map((each) => `${each.column} is ${each.projected}, not ${each.replayed}`);
    const found = { missing: 'missing', surplus: 'not in the log', changed: values.join('; ') }[kind];
    return `  ${table} ${row.join(' ')}: ${found}`;
  });
  return [
    `${projection}: ${verdict}, at position ${position}`,
    ...faults.map((fault) => `  ${fault}`),
    ...lines,
  ].join('\n');
}
