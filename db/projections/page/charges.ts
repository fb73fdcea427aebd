import { EVENT_CODES } from '#db/events/events.ts';
import { QUOTA_METERS, type QuotaMeter } from '#db/limits/meters.ts';
import { AT } from '#db/log/columns.ts';
import type { Cells } from '#db/log/line.ts';
import { addExactly, integerOf } from '#db/projections/page/exact-sums.ts';
import type { PageEvent } from '#db/projections/page/page.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const SETTLED = EVENT_CODES['request.settled'];
const EXTENDED = EVENT_CODES['request.extended'];
const ADJUSTED = EVENT_CODES['usage.adjusted'];
const CALL_TYPES: ReadonlySet<number> = new Set([
  ACCEPTED,
  EXTENDED,
  SETTLED,
  EVENT_CODES['request.abandoned'],
]);

/** An event of a call, and the units that it reserves or, of a settlement, those that it settles. */
export type CallEvent = { event: PageEvent; units: Units };
/** Of each of QUOTA_METERS. */
export type Units = number[];

/**
 * Calls that begin and end in a page, or corrections that were recorded in one minute, of one subject, one
 * minute of admission and the same terms, that are charged to the same limits.
 */
export type WholeCalls = {
  /** As `daybook.subjects_of` names them. */
  subject: string;
  holder: string;
  per: number;
  account: string;
  admittedMinute: number;
  terms: number;
  /** Of the last end. */
  position: number;
  /** Corrections are charged to the windows that are not over in the minute they were recorded; else null. */
  recordedMinute: number | null;
  /** See {@link unchargedOf}. */
  uncharged: string | null;
  units: Units;
};

export type Charges = {
  /** The events of all other calls. */
  life: CallEvent[];
  whole: WholeCalls[];
  /** The requests of the calls that were summed. */
  wholeRequests: string[];
};

/** By holder the kinds of subjects (`per`) that its terms limit or limited. */
export type Limited = ReadonlyMap<string, ReadonlySet<number>>;

/**
 * The events of calls, as far as quotas count them. Calls that are accepted and end within a page only add to
 * the used units, and are summed here. Pure.
 * @param limited only these subjects are summed: most calls name end users, sessions and tags that no quota
 * counts.
 * @throws {TypeError} where a field is no integer. {RangeError} where a sum would not be exact.
 */
export function chargesOf(events: readonly PageEvent[], limited: Limited): Charges {
  const calls = new Map<string | null | undefined, PageEvent[]>();
  const whole = new Map<string, WholeCalls>();
  for (const event of events) {
    if (event.type === ADJUSTED) addWhole(whole, event, event, limited, Math.floor(event.atUs / MINUTE_US));
    if (!CALL_TYPES.has(event.type)) continue;
    const request = event.cells[AT.request];
    const call = calls.get(request);
    if (call === undefined) calls.set(request, [event]);
    else call.push(event);
  }
  const life: CallEvent[] = [];
  const wholeRequests: string[] = [];
  for (const [request, call] of calls) {
    if (request != null && isWhole(call)) {
      addWhole(whole, call[0] as PageEvent, call.at(-1) as PageEvent, limited, null);
      wholeRequests.push(request);
    } else for (const event of call) life.push({ event, units: unitsOf(event) });
  }
  return { life, whole: [...whole.values()], wholeRequests };
}

/** Whether it is accepted, then extended or not, and then ends, and each only once. */
function isWhole(call: readonly PageEvent[]): boolean {
  const last = call.length - 1;
  return (
    last > 0 &&
    call.every(({ type }, index) => {
      if (index === 0) return type === ACCEPTED;
      return index === last ? type !== ACCEPTED && type !== EXTENDED : type === EXTENDED;
    })
  );
}

/** Adds the units of a call or a correction to those of the same subjects, minutes and terms. */
function addWhole(
  sums: Map<string, WholeCalls>,
  { cells, position }: PageEvent,
  end: PageEvent,
  limited: Limited,
  recordedMinute: number | null,
): void {
  const minute = cells[AT.admitted_minute];
  const terms = cells[AT.terms_position] ?? '0';
  // Calls from before the first limits are charged to no window.
  if (minute == null || integerOf(terms) >= position) return;
  const units = unitsOf(end);
  const uncharged = unchargedOf(cells);
  for (const { subject, holder, per, account } of subjectsOf(cells, limited)) {
    const id = `${minute},${terms},${recordedMinute},${subject},${uncharged}`;
    const sum = sums.get(id);
    if (sum === undefined) {
      sums.set(id, {
        subject,
        holder,
        per,
        account,
        admittedMinute: integerOf(minute),
        terms: integerOf(terms),
        position: end.position,
        recordedMinute,
        uncharged,
        units: [...units],
      });
      continue;
    }
    sum.position = Math.max(sum.position, end.position);
    for (const [index, more] of units.entries())
      sum.units[index] = addExactly(sum.units[index] as number, more);
  }
}

/**
 * Of a call that observed limits would have rejected, the part of an event's body that names them, which
 * `daybook.is_uncharged` reads; else null.
 */
export function unchargedOf(cells: Cells): string | null {
  const body = cells[AT.body];
  if (body == null || !body.includes('"observed":')) return null;
  const { observed } = JSON.parse(body) as { observed?: unknown };
  return observed === undefined ? null : JSON.stringify({ observed });
}

/** The accounts and keys whose terms may limit calls of a page, by the names of holders. */
export function holdersIn(events: readonly PageEvent[]): Set<string> {
  const holders = new Set<string>();
  for (const { type, cells } of events)
    if (CALL_TYPES.has(type) || type === ADJUSTED) for (const holder of holdersOf(cells)) holders.add(holder);
  return holders;
}

/** Those of a call. */
function holdersOf(cells: Cells): string[] {
  const parents = cells[AT.parents]?.split(' ') ?? [];
  return [...[cells[AT.account], ...parents].map((account) => `account/${account}`), `key/${cells[AT.key]}`];
}

/**
 * The subjects of a call, written out like its units: as `daybook.subjects_of` has them, and not by
 * db/limits/subjects.ts, from which the fold of `daybook audit diff` takes them.
 */
function* subjectsOf(
  cells: Cells,
  limited: Limited,
): Generator<Pick<WholeCalls, 'subject' | 'holder' | 'per' | 'account'>> {
  const own = cells[AT.account] ?? '';
  for (const holder of holdersOf(cells)) {
    const kinds = limited.get(holder);
    if (kinds === undefined) continue;
    const [kind, id] = holder.split('/') as [string, string];
    const account = kind === 'account' ? id : own;
    const scope = kind === 'account' ? id : `${own}/${id}`;
    for (const per of kinds) {
      if (per === 0) yield { subject: holder, holder, per, account };
      const apart = APART[per];
      if (apart === undefined) continue;
      for (const pseudonym of new Set(cells[apart.at]?.split(' ')))
        yield { subject: `${apart.kind}/${scope}/${pseudonym}`, holder, per, account };
    }
  }
}

const APART: Readonly<Record<number, { kind: string; at: number }>> = {
  1: { kind: 'end_user', at: AT.end_user },
  2: { kind: 'session', at: AT.session },
  3: { kind: 'tag', at: AT.tags },
};
const MINUTE_US = 60_000_000;

/**
 * The units of each meter, written out: the fold of `daybook audit diff` takes those of db/limits/meters.ts,
 * and a fault there would go unnoticed if both did.
 */
export function unitsOf({ type, cells }: PageEvent): Units {
  const units: Record<QuotaMeter, number> =
    type === SETTLED
      ? {
          requests: 1,
          tokens: field(cells, AT.input_tokens) + field(cells, AT.output_tokens),
          cost_nanousd: field(cells, AT.cost_nanousd),
        }
      : type === ADJUSTED
        ? {
            requests: 0,
            tokens:
              field(cells, AT.input_tokens) + field(cells, AT.output_tokens) + field(cells, AT.hold_tokens),
            cost_nanousd: field(cells, AT.cost_nanousd),
          }
        : {
            requests: 1,
            tokens: field(cells, AT.hold_tokens),
            cost_nanousd: field(cells, AT.hold_cost_nanousd),
          };
  return QUOTA_METERS.map((meter) => units[meter]);
}

const field = (cells: Cells, at: number): number => integerOf(cells[at] ?? '0');
