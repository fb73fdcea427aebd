import type { EventOf } from '#db/events/events.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import type { BatchLine } from '#db/stored/batches.ts';

type Accepted = EventOf<'request.accepted'>;

/** What the endings of all lines of a batch follow from, wherever they are settled. Pure. */
export type BatchFacts = {
  /** What the events of its lines have in common. */
  accepted: Pick<Accepted, 'account' | 'key' | 'batch'> &
    Pick<Accepted, 'admitted_minute' | 'terms_position' | 'parents' | 'observed'> &
    Pick<Accepted, 'end_user' | 'session' | 'tags'> &
    Required<Pick<Accepted, 'route'>>;
  /** The batch prices of its models that were in force when it was created; null: no price was set. */
  prices: Record<string, CallPrice | null>;
  /** How long its provider may take. */
  windowMs: number;
};

/** The event that a line of a batch was accepted with, as far as its ending follows from it. */
export function acceptedLine({ accepted }: Pick<BatchFacts, 'accepted'>, line: BatchLine): Accepted {
  const { request, model, body_bytes, hold_tokens, hold_cost_nanousd, output_limit } = line;
  return {
    type: 'request.accepted',
    request,
    model,
    sse: false,
    body_bytes,
    hold_tokens,
    ...(hold_cost_nanousd === null ? {} : { hold_cost_nanousd }),
    ...(output_limit === null ? {} : { max_output_tokens: output_limit }),
    ...accepted,
  };
}
