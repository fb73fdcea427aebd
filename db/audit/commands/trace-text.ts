import type { RequestEvent } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { formatDollars } from '#db/money.ts';

/** What an event of a request says, in plain words. Pure. */

const dollars = (microusd: number | undefined): string =>
  microusd === undefined ? 'no price' : `${microusd} micro-dollars (${formatDollars(microusd)} dollars)`;

const hold = ({
  hold_tokens,
  hold_cost_microusd,
}: {
  hold_tokens: number;
  hold_cost_microusd?: number | undefined;
}): string => `${hold_tokens} tokens, ${dollars(hold_cost_microusd)}`;

/** Where a call went, what came of it, and how long that took. */
const toldOf = ({ upstream, credential, outcome, duration_ms }: Attempt): string =>
  `${upstream}${credential === undefined ? '' : ` with credential ${credential}`} (${outcome}, ${duration_ms} ms)`;

export function wordsOf(event: RequestEvent): string {
  switch (event.type) {
    case 'request.accepted': {
      const { model, sse, body_bytes, admitted_minute, terms_position, retry_count, route, account, key } =
        event;
      const admission =
        admitted_minute === undefined
          ? 'before there were limits'
          : `in the minute ${new Date(admitted_minute * 60_000).toISOString().slice(0, 16)}Z under the terms of position ${terms_position ?? 0}`;
      return `accepted for ${model}${route === undefined ? '' : ` by ${route}`}, account ${account}, key ${key}: ${sse ? 'a streamed' : 'a whole'} reply to ${body_bytes} bytes${retry_count === undefined ? '' : `, retry ${retry_count}`}; admitted ${admission}; held ${hold(event)}`;
    }
    case 'request.extended':
      return `given more to spend: held ${hold(event)} from here on`;
    case 'request.settled': {
      const {
        end_reason,
        usage_source,
        status,
        input_tokens,
        cached_tokens,
        output_tokens,
        reasoning_tokens,
        cost_microusd,
        price_version,
        attempts,
        tries,
        upstream,
        first_byte_ms,
        duration_ms,
      } = event;
      return [
        `settled: ${end_reason}, status ${status}`,
        `${input_tokens} input tokens (${cached_tokens} cached), ${output_tokens} output tokens (${reasoning_tokens} reasoning), as told by: ${usage_source}`,
        `cost ${dollars(cost_microusd)}${price_version === undefined ? '' : `, by version ${price_version} of the price`}`,
        tries === undefined
          ? `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}${upstream === undefined ? ', no upstream' : ` at upstream ${upstream}`}`
          : `${attempts} attempts: ${tries.map(toldOf).join(', then ')}`,
        `${first_byte_ms === undefined ? 'no first byte' : `first byte after ${first_byte_ms} ms`}, ended after ${duration_ms} ms`,
      ].join('; ');
    }
    case 'request.abandoned':
      return `abandoned: its instance died, and nobody knows what it had relayed; its hold stays charged in full: ${hold(event)}`;
    case 'request.rejected':
      return `refused with ${event.status} ${event.refusal}${event.refused_count > 1 ? `, and ${event.refused_count - 1} more calls alike` : ''}`;
  }
}
