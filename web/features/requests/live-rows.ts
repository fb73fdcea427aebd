import type { Frame, FrameOf } from '#server/contract/frames.ts';
import type { CorrectedRow, RequestRow } from '#server/contract/requests.ts';

type CallFrame = FrameOf<'started' | 'settled' | 'refused'>;

/** Applies live frames to rows of the request list. Pure. */

const EMPTY_ROW = {
  ended_at: null,
  route: null,
  upstream: null,
  end_user: null,
  session: null,
  tags: [],
  end_reason: null,
  error_code: null,
  rejected_count: null,
  status: null,
  sse: null,
  input_tokens: null,
  cache_read_tokens: null,
  cache_write_tokens: null,
  output_tokens: null,
  reasoning_tokens: null,
  usage_source: null,
  cost_nanousd: null,
  first_byte_ms: null,
  duration_ms: null,
  attempt_count: null,
  retry_count: null,
  observed: null,
  hold_tokens: null,
  hold_cost_nanousd: null,
  end_position: null,
  corrected: null,
} as const;

/** The creation time in a request's id, for requests whose start frame was not received. */
const createdAt = (request: string): string =>
  new Date(Number.parseInt(request.replace('-', '').slice(0, 12), 16)).toISOString();

type Whose = Pick<RequestRow, 'route' | 'end_user' | 'session' | 'tags'>;

const whoseOf = (frame: CallFrame): Whose => ({
  route: frame.route ?? null,
  end_user: frame.end_user ?? null,
  session: frame.session ?? null,
  tags: frame.tags ?? [],
});

function startedRow(frame: FrameOf<'started'>): RequestRow {
  const { request, account, key, model, position, at, sse, hold_tokens } = frame;
  return {
    ...EMPTY_ROW,
    ...whoseOf(frame),
    request,
    account,
    key,
    model,
    position,
    accepted_at: at,
    outcome: 'running',
    sse,
    hold_tokens,
    hold_cost_nanousd: frame.hold_cost_nanousd ?? null,
    retry_count: frame.retry_count ?? null,
    observed: frame.observed?.length ?? null,
  };
}

function settledRow(frame: FrameOf<'settled'>, known: RequestRow | undefined): RequestRow {
  const { request, account, key, model, at, position, outcome, end_reason, usage_source } = frame;
  const began = known ?? {
    ...EMPTY_ROW,
    ...whoseOf(frame),
    request,
    account,
    key,
    model,
    position,
    accepted_at: createdAt(request),
  };
  const cost = (end_reason === 'abandoned' ? frame.hold_cost_nanousd : frame.cost_nanousd) ?? null;
  return {
    ...began,
    outcome,
    end_reason,
    usage_source,
    ended_at: at,
    end_position: position,
    observed: frame.observed?.length ?? null,
    upstream: frame.upstream ?? null,
    status: frame.status ?? null,
    input_tokens: frame.input_tokens ?? null,
    cache_read_tokens: frame.cache_read_tokens ?? null,
    cache_write_tokens: frame.cache_write_tokens ?? null,
    output_tokens: frame.output_tokens ?? null,
    reasoning_tokens: frame.reasoning_tokens ?? null,
    cost_nanousd: cost,
    // Absent where it is the same, and for those who may not see it; `upstreamCost` of the list knows.
    ...(frame.upstream_cost_nanousd === undefined
      ? {}
      : { upstream_cost_nanousd: frame.upstream_cost_nanousd }),
    first_byte_ms: frame.first_byte_ms ?? null,
    duration_ms: frame.duration_ms ?? null,
    attempt_count: frame.attempt_count ?? null,
  };
}

function refusedRow(frame: FrameOf<'refused'>): RequestRow {
  const { request, account, key, model = null, at, position, error_code, status, rejected_count } = frame;
  return {
    ...EMPTY_ROW,
    ...whoseOf(frame),
    request,
    account,
    key,
    model,
    position,
    end_position: position,
    accepted_at: at,
    ended_at: at,
    outcome: 'refused',
    error_code,
    status,
    rejected_count,
  };
}

/** The row with a correction that it doesn't have yet; null if it has. */
function correctedRow(frame: FrameOf<'corrected'>, row: RequestRow): RequestRow | null {
  const { corrected, cost_nanousd, upstream_cost_nanousd = cost_nanousd } = row;
  if (corrected !== null && frame.position <= corrected.position) return null;
  const isAbandoned = row.input_tokens === null;
  const plus = (
    name: Exclude<keyof CorrectedRow, 'corrections' | 'position'>,
    isOfOther: boolean,
  ): number | null => (isOfOther ? null : (corrected?.[name] ?? row[name] ?? 0) + (frame[name] ?? 0));
  const { cost_nanousd: added = 0, upstream_cost_nanousd: addedUpstream = added } = frame;
  return {
    ...row,
    corrected: {
      corrections: (corrected?.corrections ?? 0) + 1,
      position: frame.position,
      cost_nanousd: (corrected?.cost_nanousd ?? cost_nanousd ?? 0) + added,
      ...('upstream_cost_nanousd' in row
        ? {
            upstream_cost_nanousd:
              (corrected?.upstream_cost_nanousd ?? upstream_cost_nanousd ?? 0) + addedUpstream,
          }
        : {}),
      input_tokens: plus('input_tokens', isAbandoned),
      cache_read_tokens: plus('cache_read_tokens', isAbandoned),
      cache_write_tokens: plus('cache_write_tokens', isAbandoned),
      output_tokens: plus('output_tokens', isAbandoned),
      reasoning_tokens: plus('reasoning_tokens', isAbandoned),
      hold_tokens: plus('hold_tokens', !isAbandoned),
    },
  };
}

/**
 * Applies a frame to a row.
 * @param known the row before, if any.
 * @returns null if the frame does not change a request: another type, a duplicate, or late.
 */
export function rowAfter(frame: Frame, known: RequestRow | undefined): RequestRow | null {
  switch (frame.type) {
    case 'started':
      return known ? null : startedRow(frame);
    case 'progress':
      return known?.outcome === 'running' && known.output_tokens !== frame.output_tokens
        ? { ...known, output_tokens: frame.output_tokens }
        : null;
    case 'settled':
      return known && known.end_position !== null ? null : settledRow(frame, known);
    case 'refused':
      return known ? null : refusedRow(frame);
    case 'corrected':
      return known && known.end_position !== null ? correctedRow(frame, known) : null;
    default:
      return null;
  }
}

/** The server's order, newest first. */
export function compareRows(left: RequestRow, right: RequestRow): number {
  // ISO times of one format sort as text.
  if (left.accepted_at !== right.accepted_at) return left.accepted_at < right.accepted_at ? 1 : -1;
  return right.position - left.position;
}
