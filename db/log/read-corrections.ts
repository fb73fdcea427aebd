import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { CORRECTED_FIGURES, type CorrectedFigure } from '#db/events/usage-events.ts';
import type { Figures } from '#db/fold/correction.ts';
import { db, rowsOf } from '#db/schema/query.ts';

/** The corrections of a request: their number, their references and the sums of their amounts. */
export type Corrected = {
  count: number;
  /** Of the newest. */
  position: number;
  references: string[];
  added: Figures;
};

const SUMS = CORRECTED_FIGURES.map((figure) => {
  const added =
    figure === 'upstream_cost_nanousd' ? sql`coalesce(upstream_cost_nanousd, cost_nanousd)` : sql.ref(figure);
  return sql<string>`coalesce(sum(${added}), 0)`.as(figure);
});

/** The corrections of requests, by request; none for requests that were never corrected. */
export async function readCorrected(
  client: ClientBase,
  requests: readonly string[],
): Promise<Map<string, Corrected>> {
  if (requests.length === 0) return new Map();
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.correction')
      .select(['request', sql<number>`count(*)::integer`.as('count')])
      .select(({ fn }) => fn.max<string>('position').as('position'))
      .select(sql<string[]>`array_agg(reference order by position)`.as('references'))
      .select(SUMS)
      .where('request', '=', sql<string>`any(${requests}::uuid[])`)
      .groupBy('request'),
  );
  return new Map(
    rows.map(({ request, count, position, references, ...sums }) => [
      request,
      {
        count,
        position: Number(position),
        references,
        added: figuresOf(sums),
      },
    ]),
  );
}

/** The positions of a request's corrections, which stand anywhere behind its end. */
export async function readCorrectionPositions(
  client: ClientBase,
  request: string,
  limit: number,
): Promise<number[]> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.correction')
      .select('position')
      .where('request', '=', request)
      .orderBy('position')
      .limit(limit),
  );
  return rows.map(({ position }) => Number(position));
}

/** Corrections that a back-test keeps in memory. Those of more requests don't count. */
const CORRECTED_MAX = 1_000_000;

/** What the corrections from a position of the log on have added to their requests. */
export async function readAllCorrected(client: ClientBase, from: number): Promise<Map<string, Figures>> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.correction')
      .select('request')
      .select(SUMS)
      .where('position', '>=', String(from))
      .groupBy('request')
      .limit(CORRECTED_MAX),
  );
  return new Map(rows.map(({ request, ...sums }) => [request, figuresOf(sums)]));
}

const figuresOf = (sums: Record<CorrectedFigure, string>): Figures =>
  Object.fromEntries(CORRECTED_FIGURES.map((figure) => [figure, Number(sums[figure])])) as Figures;
