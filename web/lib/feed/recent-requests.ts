import type { RequestRow } from '#server/contract/requests.ts';
import type { Ending } from './tally.ts';

/** An ended request, as shown in short lists. */
export type RecentRequest = Pick<
  RequestRow,
  | 'request'
  | 'key'
  | 'model'
  | 'outcome'
  | 'error_code'
  | 'rejected_count'
  | 'status'
  | 'input_tokens'
  | 'output_tokens'
  | 'cost_nanousd'
  | 'usage_source'
  | 'duration_ms'
> & { at: string };

/** Converts a row of the request list. Pure. */
export const recentRequestOf = ({
  request,
  key,
  model,
  outcome,
  error_code,
  rejected_count,
  status,
  input_tokens,
  output_tokens,
  cost_nanousd,
  usage_source,
  duration_ms,
  accepted_at,
  ended_at,
}: RequestRow): RecentRequest => ({
  request,
  key,
  model,
  outcome,
  error_code,
  rejected_count,
  status,
  input_tokens,
  output_tokens,
  cost_nanousd,
  usage_source,
  duration_ms,
  at: ended_at ?? accepted_at,
});

/** Converts a frame of the live feed. */
export function recentRequestOfFrame(frame: Ending): RecentRequest {
  const { request, key, at, status } = frame;
  const call = { request, key, at, status: status ?? null };
  if (frame.type === 'refused') {
    const { error_code, rejected_count } = frame;
    return {
      ...call,
      model: frame.model ?? null,
      outcome: 'refused',
      error_code,
      rejected_count,
      input_tokens: null,
      output_tokens: null,
      cost_nanousd: null,
      usage_source: null,
      duration_ms: null,
    };
  }
  const {
    model,
    outcome,
    usage_source,
    input_tokens = null,
    output_tokens = null,
    cost_nanousd = null,
    duration_ms = null,
  } = frame;
  return {
    ...call,
    model,
    outcome,
    error_code: null,
    rejected_count: null,
    input_tokens,
    output_tokens,
    cost_nanousd,
    usage_source,
    duration_ms,
  };
}
