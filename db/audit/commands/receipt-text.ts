import type { UsageSource } from '#db/events/endings.ts';
import type { Event, Placed } from '#db/events/events.ts';
import { describeCorrection } from '#db/audit/commands/trace-text.ts';
import { splitEntry } from '#db/log/line.ts';
import { dateOf, readLine } from '#db/log/read.ts';
import { formatDollars } from '#db/money.ts';
import { formatVerifierKey } from '#db/tlog/note.ts';
import type { VerifiedReceipt } from '#db/tlog/receipt.ts';

/** A receipt as text for people. Pure. */

/** The events of the request, one line each. */
export function describeEvents({ receipt }: VerifiedReceipt): string[] {
  return receipt.events.map(({ entry }) => {
    const { place, line } = splitEntry(entry);
    const read = readLine(place.position, dateOf(place.atUs), place.instance, line);
    return 'event' in read
      ? eventLine(read)
      : `position ${read.position}: an event that this version can't decode`;
  });
}

function eventLine({ position, at, event }: Placed): string {
  return `position ${position}, ${at.toISOString()}: ${describeEvent(event)}`;
}

function describeEvent(event: Event): string {
  switch (event.type) {
    case 'request.accepted':
      return [
        `accepted for account ${event.account} by key ${event.key}, model ${event.model}`,
        `${event.body_bytes} bytes, ${reserved(event)}`,
      ].join(': ');
    case 'request.extended':
      return `reservation extended: ${reserved(event)}`;
    case 'request.settled': {
      const by = event.upstream === undefined ? 'sent to no upstream' : `by ${event.upstream}`;
      const tokens =
        `${event.input_tokens} tokens in (${event.cache_read_tokens} cached) and ` +
        `${event.output_tokens} out (${event.reasoning_tokens} of reasoning)`;
      const cost =
        event.cost_nanousd === undefined
          ? 'no price set'
          : `${money(event.cost_nanousd)} by price version ${event.price_version ?? 'unknown'}`;
      return (
        `settled (${event.end_reason}), status ${event.status}, ${by} in ${event.duration_ms} ms: ` +
        `${tokens}, ${SOURCES[event.usage_source]}; ${cost}`
      );
    }
    case 'request.abandoned':
      return (
        'abandoned because its server stopped; charged by estimate: ' +
        `${event.hold_tokens} tokens${withCost(event)}`
      );
    case 'request.rejected': {
      const others = event.rejected_count - 1;
      return (
        `rejected with ${event.status} ${event.error_code} for account ${event.account} by key ${event.key}` +
        (others > 0 ? `, with ${others} more requests at that moment` : '')
      );
    }
    case 'usage.adjusted':
      return describeCorrection(event);
    default:
      return event.type;
  }
}

const SOURCES: Record<UsageSource, string> = {
  provider: 'as the provider reported',
  counted: 'counted during relay',
  estimated: 'estimated',
  none: 'no usage',
  implausible: 'estimated, as the report of the provider was not possible',
};

const money = (nanousd: number): string => `$${formatDollars(nanousd)}`;
type Reservation = { hold_tokens: number; hold_cost_nanousd?: number | undefined };
const withCost = ({ hold_cost_nanousd: cost }: Reservation): string =>
  cost === undefined ? '' : ` and ${money(cost)}`;
const reserved = (event: Reservation): string => `${event.hold_tokens} tokens reserved${withCost(event)}`;

/** What the receipt proves, and which keys vouch for it. */
export function describeProof({
  receipt,
  checkpoint,
  signers,
  isKeyKnown,
  cosignatures,
}: VerifiedReceipt): string[] {
  const count = receipt.events.length;
  const events = count === 1 ? 'this event is' : `these ${count} events are`;
  const when = (timeSecs: number | null): string => new Date((timeSecs ?? 0) * 1_000).toISOString();
  return [
    `Proven: ${events} included in the log ${checkpoint.origin} at ` +
      `${count === 1 ? 'that position' : 'those positions'}, under its checkpoint of size ` +
      `${checkpoint.size}, signed by ${signers.map(formatVerifierKey).join(' and ')}.`,
    ...(isKeyKnown
      ? []
      : [
          'That key came with the receipt, and a forged receipt can carry a forged key. Compare it ' +
            'with a key from another source, and pass that one with --key.',
        ]),
    ...cosignatures.map(
      ({ verifier, timeSecs }) =>
        `Cosigned by ${formatVerifierKey(verifier)} at ${when(timeSecs)}: up to then this witness saw ` +
        'an append-only log.',
    ),
    ...(cosignatures.length > 0
      ? []
      : [
          'No witness has cosigned the checkpoint (yet), so nothing independent shows that every ' +
            'reader sees the same log.',
        ]),
    ...(receipt.has_all_events
      ? []
      : [
          'The request has more events than a receipt holds: only the first and the last ones are ' +
            'here, the extensions between them are in the log.',
        ]),
  ];
}
