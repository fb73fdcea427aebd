import type { EventOf } from '#db/events/events.ts';
import { CORRECTED_FIGURES, type CorrectedFigure, type Corrections } from '#db/events/usage-events.ts';

/** The figures of ended requests, as recorded and corrected. Pure. */

export type EndedEvent = EventOf<'request.settled' | 'request.abandoned'>;
/** Costs and tokens; those that a request doesn't have are 0. */
export type Figures = Record<CorrectedFigure, number>;

export const NO_CORRECTION: Figures = {
  cost_nanousd: 0,
  upstream_cost_nanousd: 0,
  input_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  hold_tokens: 0,
};

/** What a request ended with. */
export function recordedFigures(event: EndedEvent): Figures {
  if (event.type === 'request.abandoned') {
    const { hold_tokens, hold_cost_nanousd: cost = 0 } = event;
    return { ...NO_CORRECTION, hold_tokens, cost_nanousd: cost, upstream_cost_nanousd: cost };
  }
  const { cost_nanousd = 0, upstream_cost_nanousd = cost_nanousd, cache_write_tokens = 0 } = event;
  const { input_tokens, cache_read_tokens, output_tokens, reasoning_tokens } = event;
  return {
    cost_nanousd,
    upstream_cost_nanousd,
    input_tokens,
    cache_read_tokens,
    cache_write_tokens,
    output_tokens,
    reasoning_tokens,
    hold_tokens: 0,
  };
}

/** What a correction adds to each figure: without an amount for the upstream cost, that of the charge. */
export function addedFigures({ upstream_cost_nanousd, ...deltas }: Corrections): Figures {
  const { cost_nanousd = 0 } = deltas;
  const added: Figures = { ...NO_CORRECTION, upstream_cost_nanousd: upstream_cost_nanousd ?? cost_nanousd };
  for (const figure of CORRECTED_FIGURES)
    if (figure !== 'upstream_cost_nanousd') added[figure] = deltas[figure] ?? 0;
  return added;
}

export function addFigures(one: Figures, other: Figures): Figures {
  return Object.fromEntries(CORRECTED_FIGURES.map((name) => [name, one[name] + other[name]])) as Figures;
}

/**
 * The event that corrects an ended request. Amounts of 0 are omitted, and an upstream cost that is the
 * charge's.
 */
export function correctionOf(
  ended: EndedEvent,
  added: Figures,
  origin: Pick<EventOf<'usage.adjusted'>, 'reference' | 'reason' | 'adjusted_by'>,
): EventOf<'usage.adjusted'> {
  const { request, account, key, model, route, end_user, session, tags, end_reason } = ended;
  const { admitted_minute, terms_position, parents, observed } = ended;
  const { upstream, status } = ended.type === 'request.settled' ? ended : {};
  const { upstream_cost_nanousd, ...others } = added;
  const optional = { route, upstream, status, end_user, session, tags };
  return {
    type: 'usage.adjusted',
    request,
    account,
    key,
    model,
    end_reason,
    ...defined({ ...optional, admitted_minute, terms_position, parents, observed }),
    ...Object.fromEntries(Object.entries(others).filter(([, amount]) => amount !== 0)),
    ...(upstream_cost_nanousd === added.cost_nanousd ? {} : { upstream_cost_nanousd }),
    ...origin,
  };
}

/** Without the fields that are undefined. */
function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
