import type { Bill, BillLine } from '#db/reconcile/bill/line.ts';
import type { BilledPart } from '#db/reconcile/compare/attempts.ts';
import { allocateCosts } from '#db/reconcile/compare/allocate.ts';
import { absolute, divideRound } from '#db/reconcile/compare/exact.ts';
import { FALLBACKS } from '#db/pricing/parts.ts';

/** The usage of a bill in the units that are compared: single requests, and sums over an interval. Pure. */

/** How the names of a bill are those of the log. */
export type Mapping = {
  /** Names of the bill and those of the log. */
  models: ReadonlyMap<string, string>;
  credentials: ReadonlyMap<string, string>;
  /** Billionths of a dollar for one unit of a currency. */
  rates: ReadonlyMap<string, bigint>;
};

/** Lines of a bill that are compared together. */
export type BillUnit = {
  fromMs: number;
  toMs: number;
  model: string | null;
  /** As the relay names it, where it is known. */
  credential: string | null;
  serviceTier: string | null;
  /** The tiers that its lines state, those of usage without a cost included. */
  tiers: Set<string | null>;
  requestId: string | null;
  quantities: Map<BilledPart, bigint>;
  requests: bigint | null;
  /** Nano-dollars. */
  cost: bigint;
  /** Lines with a cost. */
  costLines: number;
  /** The largest power of ten, up to a cent, that divides each cost. */
  roundedTo: bigint;
  /** A part of the cost is in another currency. */
  isForeign: boolean;
  /** Lines that repeat another line of the same request, and their cost. */
  repeated: number;
  repeatedCost: bigint;
  places: string[];
};

export type BillAdjustment = { line: BillLine; credential: string | null; cost: bigint };

export type BillUnits = {
  byRequest: Map<string, BillUnit>;
  /** Single requests without an id. */
  anonymous: BillUnit[];
  /** Sums over intervals. */
  sums: BillUnit[];
  /** Discounts, refunds, credits, fees and taxes in dollars. */
  adjustments: BillAdjustment[];
  /** The dimensions that sums are stated by. */
  dimensions: { model: boolean; credential: boolean; serviceTier: boolean };
  /** The parts that the bill states quantities of. */
  parts: ReadonlySet<BilledPart>;
  /** What all lines cost, in nano-dollars; and amounts of currencies without a rate. */
  total: bigint;
  foreign: Map<string, bigint>;
  /** The largest power of ten, up to a cent, that divides all costs. */
  roundedTo: bigint;
};

const CENT = 10_000_000n;
const PLACES_MAX = 3;
const STANDARD_TIERS = new Set(['', 'default', 'standard', 'auto', 'on_demand']);

/** The tier in one spelling; null: the standard one, which providers name in several ways. */
export function tierOf(text: string | null): string | null {
  const tier = text?.trim().toLowerCase() ?? '';
  return STANDARD_TIERS.has(tier) ? null : tier;
}

/** The part that a bill counts a part with that it does not state: reasoning with the output, for example. */
export function countedAs(part: BilledPart, stated: ReadonlySet<BilledPart>): BilledPart {
  let counted: BilledPart = part;
  while (!stated.has(counted) && counted in FALLBACKS) counted = FALLBACKS[counted as keyof typeof FALLBACKS];
  return stated.has(counted) ? counted : part;
}

/** Groups the lines of a bill. */
export function billUnits(bill: Bill, mapping: Mapping): BillUnits {
  const lines = allocateCosts(bill.lines);
  const usage = lines.filter(({ kind }) => kind === 'usage');
  const summed = usage.filter(({ requestId, from, to }) => requestId === null && to > from);
  const priced = summed.filter(({ cost }) => cost !== null);
  const shaping = priced.length > 0 ? priced : summed;
  const dimensions = {
    model: shaping.some(({ model }) => model !== null),
    credential: shaping.some(({ credential }) => credential !== null),
    serviceTier: shaping.some(({ serviceTier }) => serviceTier !== null),
  };
  const units: BillUnits = {
    byRequest: new Map(),
    anonymous: [],
    sums: [],
    adjustments: [],
    dimensions,
    parts: new Set(usage.flatMap(({ part, quantity }) => (part !== null && quantity !== null ? [part] : []))),
    total: 0n,
    foreign: new Map(),
    roundedTo: CENT,
  };
  const sums = new Map<string, BillUnit>();
  const singles = new Map<string, BillUnit>();
  const seen = new Set<string>();
  for (const line of lines) {
    const cost = dollarsOf(line, mapping, units);
    units.total += cost;
    if (line.kind !== 'usage') {
      units.adjustments.push({ line, credential: credentialOf(line, mapping), cost });
      continue;
    }
    if (line.cost !== null) units.roundedTo = commonPower(units.roundedTo, cost);
    const unit = unitOf(line, mapping, units, sums, singles);
    addLine(unit, line, cost, seen);
  }
  units.sums.push(...sums.values());
  units.anonymous.push(...singles.values());
  return units;
}

/** The unit that a line belongs to. */
function unitOf(
  line: BillLine,
  mapping: Mapping,
  { byRequest, dimensions }: BillUnits,
  sums: Map<string, BillUnit>,
  singles: Map<string, BillUnit>,
): BillUnit {
  const { from, to, requestId } = line;
  const model = line.model === null ? null : (mapping.models.get(line.model) ?? line.model);
  const credential = credentialOf(line, mapping);
  const tier = tierOf(line.serviceTier);
  if (requestId !== null) return known(byRequest, requestId, line, model, credential, tier);
  const isSum = to > from;
  // A sum over all of a dimension has none of its names.
  const names = [
    !isSum || dimensions.model ? model : null,
    !isSum || dimensions.credential ? credential : null,
    !isSum || dimensions.serviceTier ? tier : null,
  ] as const;
  const key = JSON.stringify([from.getTime(), to.getTime(), ...names]);
  return known(isSum ? sums : singles, key, line, ...names);
}

function known(
  units: Map<string, BillUnit>,
  key: string,
  { from, to, requestId }: BillLine,
  model: string | null,
  credential: string | null,
  serviceTier: string | null,
): BillUnit {
  let unit = units.get(key);
  if (unit) return unit;
  unit = {
    fromMs: from.getTime(),
    toMs: to.getTime(),
    model,
    credential,
    serviceTier,
    tiers: new Set(),
    requestId,
    quantities: new Map(),
    requests: null,
    cost: 0n,
    costLines: 0,
    roundedTo: CENT,
    isForeign: false,
    repeated: 0,
    repeatedCost: 0n,
    places: [],
  };
  units.set(key, unit);
  return unit;
}

function addLine(unit: BillUnit, line: BillLine, cost: bigint, seen: Set<string>): void {
  if (unit.places.length < PLACES_MAX) unit.places.push(line.place);
  if (line.currency !== 'USD') unit.isForeign = true;
  if (line.serviceTier !== null) unit.tiers.add(tierOf(line.serviceTier));
  if (line.requestId !== null) {
    const content = [line.requestId, line.part, line.quantity, line.requests, line.cost, line.currency];
    const key = content.map(String).join('\n');
    if (seen.has(key)) {
      unit.repeated++;
      unit.repeatedCost += cost;
      return;
    }
    seen.add(key);
  }
  if (line.part !== null && line.quantity !== null)
    unit.quantities.set(line.part, (unit.quantities.get(line.part) ?? 0n) + line.quantity);
  if (line.requests !== null) unit.requests = (unit.requests ?? 0n) + line.requests;
  if (line.cost === null) return;
  unit.cost += cost;
  unit.costLines++;
  unit.roundedTo = commonPower(unit.roundedTo, cost);
}

/** The cost of a line in nano-dollars; amounts of a currency without a rate are counted apart. */
function dollarsOf({ cost, currency }: BillLine, { rates }: Mapping, { foreign }: BillUnits): bigint {
  if (cost === null || currency === 'USD') return cost ?? 0n;
  const rate = rates.get(currency);
  if (rate !== undefined) return divideRound(cost * rate, 1_000_000_000n);
  foreign.set(currency, (foreign.get(currency) ?? 0n) + cost);
  return 0n;
}

const credentialOf = ({ credential }: BillLine, { credentials }: Mapping): string | null =>
  credential === null ? null : (credentials.get(credential) ?? credential);

function commonPower(power: bigint, cost: bigint): bigint {
  let common = power;
  while (common > 1n && absolute(cost) % common !== 0n) common /= 10n;
  return common;
}
