import type { DifferenceClass } from '#db/reconcile/classes.ts';
import type { BilledPart, Quantities } from '#db/reconcile/compare/attempts.ts';
import { type BillUnit, tierOf } from '#db/reconcile/compare/bill-units.ts';
import { absolute, costAt, divideRound, FRACTIONS, unitPrice } from '#db/reconcile/compare/exact.ts';
import type { Recorded } from '#db/reconcile/compare/recorded.ts';
import { TOKEN_CLASSES } from '#db/pricing/parts.ts';
import type { FullRate } from '#db/pricing/schedule.ts';

/** The difference of one unit of a bill and the log, in pieces of one class each. Pure. */

/** A part of a difference: the bill's amount minus the log's, in nano-dollars. */
export type Piece = { class: DifferenceClass; amount: bigint; detail: string | null };

export type DecomposeContext = {
  /** The largest power of ten that divides all costs of the bill. */
  roundedTo: bigint;
  /** Whether the bill states the tier. */
  hasTier: boolean;
  /** The price versions of the model besides the one in force. */
  otherRates: (recorded: Recorded, tier: string | null) => readonly { version: number; rate: FullRate }[];
};

const INPUT = new Set<BilledPart>([
  'input',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'audio_input',
  'image_input',
]);
const TOKENS = new Set<BilledPart>(TOKEN_CLASSES);

/**
 * Splits the difference of a unit. The amounts of the pieces always add up to the bill's cost minus the
 * log's;
 * none: usage and cost agree.
 */
export function decompose(bill: BillUnit, log: Recorded, context: DecomposeContext): Piece[] {
  const whole = bill.cost - log.cost;
  const changed = bill.quantities.size === 0 ? [] : changedParts(bill.quantities, log.quantities);
  if (bill.isForeign) return [{ class: 'currency', amount: whole, detail: null }];
  if (whole === 0n && changed.length === 0) return nameOf(bill, log) ?? [];
  const { failed, estimated, abandoned } = log.endings;
  if (log.requests === 0n && failed > 0)
    return [{ class: 'failed_attempt', amount: whole, detail: describeParts(changed) }];
  if (log.requests === BigInt(estimated + abandoned) && (changed.length > 0 || abandoned > 0))
    return [{ class: 'unknown_ending', amount: whole, detail: describeParts(changed) }];
  const pieces = quantityPieces(bill, log, changed);
  if (log.reserved !== 0n) {
    const unknown = pieces.find((piece) => piece.class === 'unknown_ending');
    if (unknown) unknown.amount -= log.reserved;
    else pieces.push({ class: 'unknown_ending', amount: -log.reserved, detail: null });
  }
  const rest = whole - pieces.reduce((sum, { amount }) => sum + amount, 0n);
  const slack = log.requests + BigInt(bill.costLines + changed.length);
  const merged = mergedEffect(log);
  const last = pieces.at(-1);
  if (merged !== 0n && absolute(rest - merged) <= slack) {
    const known = pieces.find((piece) => piece.class === 'token_class');
    if (known) known.amount += rest;
    else pieces.push({ class: 'token_class', amount: rest, detail: describeMerged(log) });
  }
  // Rounded once here for each request, and once for each line there.
  else if (last !== undefined && absolute(rest) <= slack) last.amount += rest;
  else if (rest !== 0n) pieces.push(pricePiece(bill, log, rest, context));
  return pieces.length > 0 ? pieces : (nameOf(bill, log) ?? []);
}

/** The parts whose quantities differ. */
export function changedParts(
  bill: Quantities,
  log: Quantities,
): { part: BilledPart; billed: bigint; recorded: bigint }[] {
  return [...new Set([...bill.keys(), ...log.keys()])].flatMap((part) => {
    const [billed, recorded] = [bill.get(part) ?? 0n, log.get(part) ?? 0n];
    return part === 'requests' || billed === recorded ? [] : [{ part, billed, recorded }];
  });
}

type Changed = ReturnType<typeof changedParts>;

const describeParts = (changed: Changed): string | null =>
  changed.length === 0
    ? null
    : changed.map(({ part, billed, recorded }) => `${part} ${billed}, recorded ${recorded}`).join('; ');

/** What other quantities cost, by the classes of their reasons. */
function quantityPieces(bill: BillUnit, log: Recorded, changed: Changed): Piece[] {
  const pieces: Piece[] = [];
  const valueOf = (parts: Changed): bigint => {
    const fractions = parts.reduce(
      (sum, { part, billed, recorded }) => sum + (billed - recorded) * (priceOf(part, bill, log) ?? 0n),
      0n,
    );
    return divideRound(fractions, FRACTIONS);
  };
  const tokens = changed.filter(({ part }) => TOKENS.has(part));
  const units = changed.filter(({ part }) => !TOKENS.has(part));
  const requests = requestClass(bill, log);
  if (tokens.length > 0) {
    const sumOf = (isInput: boolean): bigint =>
      tokens.reduce(
        (sum, { part, billed, recorded }) => sum + (INPUT.has(part) === isInput ? billed - recorded : 0n),
        0n,
      );
    const isMoved = sumOf(true) === 0n && sumOf(false) === 0n;
    const isUnknown = log.endings.estimated + log.endings.abandoned > 0;
    const reason = requests ?? (isMoved ? 'token_class' : isUnknown ? 'unknown_ending' : 'token_count');
    pieces.push({ class: reason, amount: valueOf(tokens), detail: describeParts(tokens) });
  }
  if (units.length > 0)
    pieces.push({ class: requests ?? 'units', amount: valueOf(units), detail: describeParts(units) });
  return pieces;
}

/** The effect of charging parts that the bill doesn't state as the parts that it counts them with. */
function mergedEffect({ quantities, recordedQuantities, requests, rate }: Recorded): bigint {
  if (rate === null) return 0n;
  const [counted, recorded] = [quantities, recordedQuantities].map((each) => costAt(each, rate, requests));
  return counted == null || recorded == null ? 0n : counted - recorded;
}

const describeMerged = ({ quantities, recordedQuantities }: Recorded): string =>
  [...recordedQuantities]
    .filter(([part]) => !quantities.has(part))
    .map(([part, quantity]) => `${part} 0, recorded ${quantity}`)
    .join('; ');

/** The class of a difference in the number of requests; null: they agree, or the bill doesn't state them. */
function requestClass(bill: BillUnit, log: Recorded): DifferenceClass | null {
  if (bill.requests === null || bill.requestId !== null || bill.requests === log.requests) return null;
  if (bill.requests < log.requests) return 'missing_there';
  return bill.requests - log.requests <= BigInt(log.endings.failed) ? 'failed_attempt' : 'missing_here';
}

/** What one of a part costs by the log's price, or else by the bill. */
function priceOf(part: BilledPart, bill: BillUnit, log: Recorded): bigint | null {
  const own = log.rate && unitPrice(part, log.rate);
  if (own !== null) return own;
  const quantity = [...bill.quantities.values()].reduce((sum, each) => sum + each, 0n);
  return quantity === 0n ? null : (bill.cost * FRACTIONS) / quantity;
}

function pricePiece(
  bill: BillUnit,
  log: Recorded,
  amount: bigint,
  { roundedTo, hasTier, otherRates }: DecomposeContext,
): Piece {
  const [billedTier, recordedTier] = [billedTierOf(bill), tierOf(log.serviceTier)];
  if (hasTier && billedTier !== recordedTier) {
    const detail = `billed as ${billedTier ?? 'standard'}, recorded as ${recordedTier ?? 'standard'}`;
    return { class: 'service_tier', amount, detail };
  }
  const name = nameOf(bill, log);
  if (name) return { ...(name[0] as Piece), amount };
  if (log.rate === null || hasUnpriced(bill, log.rate)) return { class: 'no_price', amount, detail: null };
  const requests = bill.requests ?? log.requests;
  const usage = bill.quantities.size > 0 ? bill.quantities : log.quantities;
  const other = otherRates(log, recordedTier).find(({ rate }) => costAt(usage, rate, requests) === bill.cost);
  if (other) return { class: 'price', amount, detail: `agrees with version ${other.version} of the price` };
  const lines = BigInt(Math.max(bill.costLines, 1));
  const expected = absolute(bill.cost - amount);
  const isRounding =
    absolute(amount) <= log.requests ||
    absolute(amount) < roundedTo * lines ||
    (absolute(amount) < bill.roundedTo * lines && absolute(amount) * 1000n <= expected);
  return { class: isRounding ? 'rounding' : 'price', amount, detail: null };
}

/** The only tier that the lines of a unit state, or else the one that it is summed by. */
function billedTierOf({ tiers, serviceTier }: BillUnit): string | null {
  const [only = null] = tiers;
  return tiers.size === 1 ? only : tierOf(serviceTier);
}

const hasUnpriced = ({ quantities }: BillUnit, rate: FullRate): boolean =>
  [...quantities].some(([part, quantity]) => quantity > 0n && unitPrice(part, rate) === null);

/** Set where the bill has the model under a name that the log doesn't have for it. */
function nameOf({ model }: BillUnit, { names }: Recorded): Piece[] | null {
  if (model === null || names.length === 0 || names.includes(model)) return null;
  return [{ class: 'model_name', amount: 0n, detail: `billed as ${model}, answered as ${names[0]}` }];
}
