import type { Selectable } from 'kysely';
import type { ClientBase } from 'pg';
import { CORRECTED_FIGURES } from '#db/events/usage-events.ts';
import { readCorrected } from '#db/log/read-corrections.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import type { CorrectionTable } from '#db/schema/tables.ts';
import type {
  CorrectedRow,
  CorrectionList,
  RequestCorrection,
  RequestRow,
} from '#server/contract/requests.ts';
import { ACCOUNT_CORRECTIONS_MAX, REQUEST_CORRECTIONS_MAX } from '#server/read/bounds.ts';
import { withoutUpstreamCost } from '#server/read/operator-fields.ts';

/** Adds the corrected figures to requests that were corrected. */
export async function addCorrected(
  client: ClientBase,
  rows: readonly RequestRow[],
  isOperator: boolean,
): Promise<void> {
  const ended = rows.filter(({ ended_at, error_code }) => ended_at !== null && error_code === null);
  const found = await readCorrected(
    client,
    ended.map(({ request }) => request),
  );
  for (const row of ended) {
    const corrected = found.get(row.request);
    if (corrected === undefined) continue;
    const { added } = corrected;
    const hasTokens = row.input_tokens !== null;
    const figure = (name: keyof typeof added, recorded: number | null | undefined): number =>
      (recorded ?? 0) + added[name];
    const shown: CorrectedRow = {
      corrections: corrected.count,
      position: corrected.position,
      cost_nanousd: figure('cost_nanousd', row.cost_nanousd),
      ...(isOperator
        ? { upstream_cost_nanousd: figure('upstream_cost_nanousd', row.upstream_cost_nanousd) }
        : {}),
      input_tokens: hasTokens ? figure('input_tokens', row.input_tokens) : null,
      cache_read_tokens: hasTokens ? figure('cache_read_tokens', row.cache_read_tokens) : null,
      cache_write_tokens: hasTokens ? figure('cache_write_tokens', row.cache_write_tokens) : null,
      output_tokens: hasTokens ? figure('output_tokens', row.output_tokens) : null,
      reasoning_tokens: hasTokens ? figure('reasoning_tokens', row.reasoning_tokens) : null,
      hold_tokens: hasTokens ? null : figure('hold_tokens', row.hold_tokens),
    };
    row.corrected = shown;
  }
}

const CORRECTION = ['position', 'at', 'reference', 'reason', 'adjusted_by', ...CORRECTED_FIGURES] as const;
type CorrectionRow = Pick<Selectable<CorrectionTable>, (typeof CORRECTION)[number]>;

/** The corrections of a request, in the order of the log. */
export async function readCorrections(
  client: ClientBase,
  request: string,
  isOperator: boolean,
): Promise<RequestCorrection[]> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.correction')
      .select(CORRECTION)
      .where('request', '=', request)
      .orderBy('position')
      .limit(REQUEST_CORRECTIONS_MAX),
  );
  return rows.map((row) => shownCorrection(row, isOperator));
}

/** The newest corrections of an account's requests, for administrators and auditors. */
export async function readAccountCorrections(client: ClientBase, account: string): Promise<CorrectionList> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.correction')
      .select(['request', ...CORRECTION])
      .where('account', '=', account)
      .orderBy('position', 'desc')
      .limit(ACCOUNT_CORRECTIONS_MAX + 1),
  );
  return {
    object: 'list',
    data: rows
      .slice(0, ACCOUNT_CORRECTIONS_MAX)
      .map(({ request, ...row }) => ({ request, ...shownCorrection(row, true) })),
    has_more: rows.length > ACCOUNT_CORRECTIONS_MAX,
  };
}

function shownCorrection(
  { position, at, reference, reason, adjusted_by, ...amounts }: CorrectionRow,
  isOperator: boolean,
): RequestCorrection {
  const { upstream_cost_nanousd, ...others } = amounts;
  const added = { ...others, upstream_cost_nanousd: upstream_cost_nanousd ?? others.cost_nanousd };
  const shown = isOperator ? added : withoutUpstreamCost(added);
  return {
    position: Number(position),
    at: at.toISOString(),
    reference,
    reason,
    adjusted_by,
    ...Object.fromEntries(
      Object.entries(shown).flatMap(([name, amount]) => (amount === null ? [] : [[name, Number(amount)]])),
    ),
  };
}
