import { eventsOf } from '#db/audit/source/files.ts';
import type { Event, Placed, UsageSource } from '#db/events/events.ts';
import { formatVerifierKey } from '#db/tlog/note.ts';
import type { Opened } from '#db/tlog/receipt.ts';

/** What a receipt tells, in plain words. Pure. */

/** What happened, an event a line. */
export function tellEvents({ receipt }: Opened): string[] {
  return eventsOf(receipt.events.map(({ line }) => line)).map((read) =>
    'event' in read ? tellEvent(read) : `position ${read.position}: an event that this version does not know`,
  );
}

function tellEvent({ position, at, event }: Placed): string {
  return `position ${position}, ${at.toISOString()}: ${wordsOf(event)}`;
}

function wordsOf(event: Event): string {
  switch (event.type) {
    case 'request.accepted':
      return `accepted for account ${event.account} by key ${event.key}, model ${event.model}: ${event.body_bytes} bytes, ${event.hold_tokens} tokens held${heldMoney(event)}`;
    case 'request.extended':
      return `given more: ${event.hold_tokens} tokens held${heldMoney(event)}`;
    case 'request.settled':
      return (
        `settled (${event.end_reason}), status ${event.status}, ${event.upstream === undefined ? 'sent to nobody' : `by ${event.upstream}`} in ${event.duration_ms} ms: ` +
        `${event.input_tokens} tokens in (${event.cached_tokens} cached) and ${event.output_tokens} out (${event.reasoning_tokens} of reasoning), ${SOURCES[event.usage_source]}; ` +
        (event.cost_microusd === undefined
          ? 'without a price'
          : `${money(event.cost_microusd)} by price version ${event.price_version ?? 'unknown'}`)
      );
    case 'request.abandoned':
      return `abandoned, since its server ended: all of its hold stays charged, ${event.hold_tokens} tokens${heldMoney(event)}`;
    case 'request.rejected':
      return `refused with ${event.status} ${event.refusal} for account ${event.account} by key ${event.key}${event.refused_count > 1 ? `, as were ${event.refused_count - 1} others at that moment` : ''}`;
    default:
      return event.type;
  }
}

const SOURCES: Record<UsageSource, string> = {
  provider: 'as the provider reported',
  counted: 'counted while they were relayed',
  estimated: 'estimated',
  none: 'since nothing was used',
};

const money = (microusd: number): string => `$${(microusd / 1_000_000).toFixed(6)}`;
const heldMoney = ({ hold_cost_microusd: cost }: { hold_cost_microusd?: number | undefined }): string =>
  cost === undefined ? '' : ` and ${money(cost)}`;

/** What is proved by it, and by whom. */
export function tellProof({ receipt, checkpoint, signers, isKeyKnown, cosignatures }: Opened): string[] {
  const count = receipt.events.length;
  const these = count === 1 ? 'this is what the log' : `these ${count} events are what the log`;
  const when = (timeSecs: number | null): string => new Date((timeSecs ?? 0) * 1_000).toISOString();
  return [
    `Proven: ${these} ${checkpoint.origin} has at ${count === 1 ? 'that position' : 'those positions'}, of the ${checkpoint.size} events of its checkpoint, signed by ${signers.map(formatVerifierKey).join(' and ')}.`,
    ...(isKeyKnown
      ? []
      : [
          'That key came with the receipt. Compare it with the one that you have noted, or that somebody else has, and name it by --key: whoever makes up a receipt can make up a key.',
        ]),
    ...cosignatures.map(
      ({ verifier, timeSecs }) =>
        `Cosigned by ${formatVerifierKey(verifier)} at ${when(timeSecs)}: the log had only grown until then, as far as it saw.`,
    ),
    ...(cosignatures.length > 0
      ? []
      : [
          'No witness has cosigned the checkpoint (yet): that the log shows everybody the same is its own word.',
        ]),
    ...(receipt.has_all_events
      ? []
      : [
          'It was so long under way that its beginning and its end alone are here; the holds between them are in the log.',
        ]),
  ];
}
