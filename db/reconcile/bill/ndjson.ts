import { z } from 'zod';
import { PRICED_PARTS } from '#db/pricing/parts.ts';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';
import { NameText, parseAt } from '#db/reconcile/bill/json.ts';
import { type Bill, BILL_KINDS, BILL_SOURCES, type BillLine } from '#db/reconcile/bill/line.ts';

/**
 * A bill as a file: newline-delimited JSON, a header and then one object per line. Integers are strings,
 * since JSON numbers are not exact everywhere. Pure.
 */

const FORMAT_VERSION = 1;

const Instant = z.iso.datetime().transform((text) => new Date(text));
const Integer = z
  .string()
  .regex(/^-?\d{1,60}$/)
  .nullable()
  .transform((text) => (text === null ? null : BigInt(text)));

const Header = z.object({
  daybook_bill: z.literal(FORMAT_VERSION),
  source: z.enum(BILL_SOURCES),
  provider: z.string(),
  from: Instant,
  to: Instant,
  time_zone: z.string(),
  lines: z.int().min(0),
  unsupported: z.array(z.object({ place: z.string(), reason: z.string() })),
  rounded: z.array(z.object({ currency: z.string(), lines: z.int(), remainder: z.string() })),
});

const Line = z.object({
  place: z.string(),
  kind: z.enum(BILL_KINDS),
  from: Instant,
  to: Instant,
  model: NameText,
  credential: NameText,
  service_tier: NameText,
  request_id: NameText,
  part: z.enum([...PRICED_PARTS, 'requests']).nullable(),
  quantity: Integer,
  requests: Integer,
  cost: Integer,
  currency: z.string().regex(/^[A-Z]{3}$/),
});

/** The lines of the file, each with its line end. */
export function* writeBill(bill: Bill): Iterable<string> {
  const { source, provider, from, to, timeZone: time_zone, lines, unsupported, rounded } = bill;
  const header: z.input<typeof Header> = {
    daybook_bill: FORMAT_VERSION,
    source,
    provider,
    from: from.toISOString(),
    to: to.toISOString(),
    time_zone,
    lines: lines.length,
    unsupported,
    rounded,
  };
  yield `${JSON.stringify(header)}\n`;
  for (const line of lines) yield `${JSON.stringify(lineOut(line))}\n`;
}

function lineOut(line: BillLine): z.input<typeof Line> {
  const { serviceTier: service_tier, requestId: request_id, from, to, ...rest } = line;
  const { place, kind, model, credential, part, quantity, requests, cost, currency } = rest;
  return {
    place,
    kind,
    from: from.toISOString(),
    to: to.toISOString(),
    model,
    credential,
    service_tier,
    request_id,
    part,
    quantity: quantity === null ? null : String(quantity),
    requests: requests === null ? null : String(requests),
    cost: cost === null ? null : String(cost),
    currency,
  };
}

/** @throws {BillFormatError} naming the line of the file that is missing or malformed. */
export function readBill(text: string): Bill {
  const [first = '', ...rest] = text.split('\n');
  const { time_zone: timeZone, lines: count, ...about } = parseAt(Header, parseLine(first, 1), 'line 1');
  const texts = rest.at(-1) === '' ? rest.slice(0, -1) : rest;
  if (texts.length !== count)
    throw new BillFormatError('line 1', `The file has ${texts.length} of the ${count} lines that it states.`);
  const lines = texts.map((each, index): BillLine => {
    const parsed = parseAt(Line, parseLine(each, index + 2), `line ${index + 2}`);
    const { service_tier: serviceTier, request_id: requestId, ...line } = parsed;
    return { ...line, serviceTier, requestId };
  });
  const { daybook_bill: _, ...known } = about;
  return { ...known, timeZone, lines };
}

function parseLine(text: string, number: number): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new BillFormatError(`line ${number}`, 'It is not JSON.');
  }
}
