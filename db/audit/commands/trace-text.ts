import type { EventOf, RequestEvent } from '#db/events/events.ts';
import { CORRECTED_FIGURES } from '#db/events/usage-events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { formatDollars } from '#db/money.ts';

/** The events of a request as text for people. Pure. */

const dollars = (nanousd: number | undefined): string =>
  nanousd === undefined ? 'no price set' : `${nanousd} nano-dollars (${formatDollars(nanousd)} dollars)`;

type Reservation = { hold_tokens: number; hold_cost_nanousd?: number | undefined };
const reservation = ({ hold_tokens, hold_cost_nanousd }: Reservation): string =>
  `${hold_tokens} tokens, ${dollars(hold_cost_nanousd)}`;

/** Describes one event of a request in one line. */
export function describeEvent(event: RequestEvent): string {
  switch (event.type) {
    case 'request.accepted':
      return describeAccepted(event);
    case 'request.extended':
      if (event.handed_over) return `handed over to the background: ${reservation(event)} until it has ended`;
      return `reservation extended: ${reservation(event)} from here on`;
    case 'request.settled':
      return describeSettled(event);
    case 'request.abandoned':
      return `abandoned: server or response lost, usage estimated; charged: ${reservation(event)}`;
    case 'request.rejected': {
      const others = event.rejected_count - 1;
      return (
        `rejected on ${event.route}${event.model === undefined ? '' : ` for ${event.model}`} with ` +
        `${event.status} ${event.error_code}${others > 0 ? `, with ${others} more like it` : ''}`
      );
    }
    case 'usage.adjusted':
      return describeCorrection(event);
    case 'workload.exchanged':
      return `token of ${event.issuer} exchanged by workload ${event.workload}`;
    case 'tokens.counted':
      return (
        `tokens counted for ${event.model} by ${event.route}: ${event.input_tokens}, ` +
        (event.usage_source === 'provider' ? `as ${event.upstream} counted` : 'estimated')
      );
  }
}

/** Describes a correction in one line. */
export function describeCorrection(event: EventOf<'usage.adjusted'>): string {
  const changes = CORRECTED_FIGURES.flatMap((figure) => {
    const delta = event[figure];
    return delta === undefined ? [] : [`${figure} ${delta < 0 ? '' : '+'}${delta}`];
  });
  return (
    `corrected by ${event.adjusted_by}, reference ${event.reference}: ${changes.join(', ')}; ` +
    // Quoted: a line break in it must not look like an event.
    JSON.stringify(event.reason)
  );
}

function describeAccepted(event: EventOf<'request.accepted'>): string {
  const { model, sse, body_bytes, admitted_minute, terms_position = 0, retry_count, route } = event;
  const minute =
    admitted_minute === undefined ? '' : new Date(admitted_minute * 60_000).toISOString().slice(0, 16);
  return [
    `accepted for ${model} by ${route}`,
    `, account ${event.account}, key ${event.key}`,
    `: ${body_bytes} bytes, ${sse ? 'streaming' : 'not streaming'}`,
    retry_count === undefined ? '' : `, retry ${retry_count}`,
    admitted_minute === undefined
      ? '; admitted without limits'
      : `; admitted in the minute ${minute}Z under the limits of position ${terms_position}`,
    `; reserved ${reservation(event)}`,
  ].join('');
}

function describeSettled(event: EventOf<'request.settled'>): string {
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens } = event;
  const { attempt_count, attempts, upstream, price_version, price_plan, unpriced, first_byte_ms } = event;
  const count = `${attempt_count} ${attempt_count === 1 ? 'attempt' : 'attempts'}`;
  return [
    `settled: ${event.end_reason}, status ${event.status}`,
    [
      `${input_tokens} input tokens (${cache_read_tokens} cached` +
        (cache_write_tokens === undefined ? ')' : `, ${cache_write_tokens} written to a cache)`),
      `${output_tokens} output tokens (${reasoning_tokens} reasoning)`,
      ...Object.entries(event.usage_details ?? {}).map(([name, units]) => `${name} ${units}`),
      `usage source: ${event.usage_source}`,
    ].join(', '),
    `cost ${dollars(event.cost_nanousd)}` +
      (price_version === undefined ? '' : `, by price version ${price_version}`) +
      (price_plan === undefined ? '' : ` of plan ${price_plan}`) +
      (unpriced === undefined ? '' : `, without a price: ${unpriced.join(' ')}`),
    ...describeReply(event),
    attempts === undefined
      ? `${count}${upstream === undefined ? ', no upstream' : ` on upstream ${upstream}`}`
      : `${count}: ${attempts.map(describeAttempt).join(', then ')}`,
    [
      first_byte_ms === undefined ? 'no first byte' : `time to first byte ${first_byte_ms} ms`,
      `duration ${event.duration_ms} ms`,
    ].join(', '),
  ].join('; ');
}

/** What the reply states of itself. */
function describeReply(event: EventOf<'request.settled'>): string[] {
  const { answered_model, finish_reason, service_tier, provider_request, stated_cost_nanousd } = event;
  const stated = [
    answered_model === undefined ? '' : `answered by ${answered_model}`,
    finish_reason === undefined ? '' : `finish reason ${finish_reason}`,
    service_tier === undefined ? '' : `service tier ${service_tier}`,
    provider_request === undefined ? '' : `request ${provider_request} of the provider`,
    stated_cost_nanousd === undefined ? '' : `cost by the provider ${dollars(stated_cost_nanousd)}`,
  ].filter((text) => text !== '');
  return stated.length === 0 ? [] : [stated.join(', ')];
}

/** The upstream of an attempt, its outcome and duration, and its usage and cost where it has any. */
function describeAttempt({ upstream, credential, outcome, duration_ms, ...used }: Attempt): string {
  const using = credential === undefined ? '' : ` with credential ${credential}`;
  const { usage_source: source, input_tokens: input = 0, output_tokens: output = 0 } = used;
  const cost =
    used.upstream_cost_nanousd === undefined ? '' : `, upstream cost ${dollars(used.upstream_cost_nanousd)}`;
  const usage = source === undefined ? '' : `, ${input} input and ${output} output tokens (${source})${cost}`;
  return `${upstream}${using} (${outcome}, ${duration_ms} ms${usage})`;
}
