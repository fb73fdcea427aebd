import type { EventOf } from '#db/events/events.ts';
import { parseSubject } from '#db/limits/subjects.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type {
  BacktestLine,
  BacktestReport,
  DifferingCall,
  LimitHit,
  LogMoment,
  RejectedOf,
  ShortLimit,
} from '#server/contract/backtest.ts';

/** Adds up the result of a back-test, in bounded memory. Pure. */

/** Lines, end users and limits that are counted apart. The rest of the lines is one line. */
const LINES_MAX = 10_000;
const SUBJECTS_MAX = 100_000;
const LIMITS_MAX = 10_000;
/** The rows of each list in a report: those with the most rejections. */
const LISTED_MAX = 100;

type Amounts = { before: bigint; after: bigint; upstreamBefore: bigint; upstreamAfter: bigint };
type Line = Amounts & { account: string; model: string; requests: number; rejected: number };

/** A settled request: its costs as recorded, and by the changes; both with its corrections. */
export type SettledCosts = {
  account: string;
  model: string;
  isRejected: boolean;
  before: number;
  after: number;
  upstreamBefore: number;
  upstreamAfter: number;
};

export class Tally {
  readonly calls: BacktestReport['calls'] = {
    admitted: 0,
    rejected: 0,
    newly_rejected: 0,
    shortened: 0,
    newly_admitted: 0,
    not_evaluated: 0,
  };
  abandoned = 0;
  unpricedBefore = 0;
  unpricedAfter = 0;
  newlyAdmittedCost = 0n;
  readonly #codes = new Map<string, number>();
  readonly #lines = new Map<string, Line>();
  readonly #accounts = new Map<string, RejectedOf>();
  readonly #keys = new Map<string, RejectedOf>();
  readonly #endUsers = new Map<string, RejectedOf>();
  readonly #limits = new Map<string, LimitHit & { names: Set<string> }>();

  /** Adds a call whose outcome differs. */
  add(call: DifferingCall): void {
    const { calls } = this;
    if (call.outcome === 'shortened') calls.shortened++;
    else if (call.outcome === 'admitted') calls.newly_admitted += call.count;
    else {
      calls.newly_rejected++;
      const { account, key, end_user: endUser, error_code: code } = call;
      if (code !== null) this.#codes.set(code, (this.#codes.get(code) ?? 0) + 1);
      countRejected(this.#accounts, account, call);
      countRejected(this.#keys, key, call);
      if (endUser !== null) countRejected(this.#endUsers, endUser, call);
      for (const limit of call.limits) this.#countLimit(limit, call);
    }
  }

  #countLimit(short: ShortLimit, { position, at }: DifferingCall): void {
    const { subject, meter, window, cap, enforcement } = short;
    const limit = { subject, meter, window, cap, enforcement };
    const { kind, account, key } = parseSubject(limit.subject);
    const holder = kind === 'account' || kind === 'key' ? limit.subject : `${kind}/${account}/${key ?? ''}`;
    const name = `${holder} ${limit.meter} ${limit.window} ${limit.enforcement}`;
    let hit = this.#limits.get(name);
    if (hit === undefined) {
      if (this.#limits.size >= LIMITS_MAX) return;
      hit = {
        ...limit,
        subjects: 0,
        rejected: 0,
        first: { position, at },
        last: { position, at },
        names: new Set(),
      };
      this.#limits.set(name, hit);
    }
    hit.rejected++;
    hit.last = { position, at };
    if (hit.names.size < SUBJECTS_MAX) hit.names.add(limit.subject);
    hit.subjects = hit.names.size;
  }

  /** Adds the costs of a settled request. */
  addCosts({ account, model, isRejected, before, after, upstreamBefore, upstreamAfter }: SettledCosts): void {
    let name = `${account} ${model}`;
    let line = this.#lines.get(name);
    if (line === undefined) {
      if (this.#lines.size >= LINES_MAX) name = '';
      line = this.#lines.get(name) ?? {
        ...{ account: name === '' ? '' : account, model: name === '' ? '' : model },
        ...{ requests: 0, rejected: 0, before: 0n, after: 0n, upstreamBefore: 0n, upstreamAfter: 0n },
      };
      this.#lines.set(name, line);
    }
    line.requests++;
    if (isRejected) line.rejected++;
    line.before += BigInt(before);
    line.after += BigInt(after);
    line.upstreamBefore += BigInt(upstreamBefore);
    line.upstreamAfter += BigInt(upstreamAfter);
  }

  /** The report, with the names that accounts and keys have now. */
  report(
    names: ReadModel,
    range: Pick<BacktestReport, 'from' | 'to' | 'first_position' | 'period_position' | 'last_position'>,
  ): BacktestReport {
    const lines = [...this.#lines]
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([, { account, model, ...figures }]) => ({
        account,
        name: names.account(account)?.name ?? account,
        model,
        ...shown(figures),
      }));
    const total = { requests: 0, rejected: 0, before: 0n, after: 0n, upstreamBefore: 0n, upstreamAfter: 0n };
    for (const line of this.#lines.values()) {
      total.requests += line.requests;
      total.rejected += line.rejected;
      for (const amount of ['before', 'after', 'upstreamBefore', 'upstreamAfter'] as const)
        total[amount] += line[amount];
    }
    return {
      object: 'backtest',
      ...range,
      calls: this.calls,
      error_codes: Object.fromEntries([...this.#codes].toSorted(([one], [other]) => (one < other ? -1 : 1))),
      cost: { ...shown(total), newly_admitted_nanousd: String(this.newlyAdmittedCost) },
      lines,
      accounts: mostRejected(this.#accounts, (id) => names.account(id)?.name ?? null),
      keys: mostRejected(this.#keys, (id) => names.key(id)?.name ?? null),
      end_users: mostRejected(this.#endUsers, () => null),
      limits: [...this.#limits.values()]
        .toSorted(byRejections)
        .slice(0, LISTED_MAX)
        .map(({ names: { size }, subject, meter, window, cap, enforcement, rejected, first, last }) => ({
          ...{ subject, meter, window, cap, enforcement, subjects: size, rejected, first, last },
        })),
      abandoned: this.abandoned,
      unpriced_before: this.unpricedBefore,
      unpriced_after: this.unpricedAfter,
    };
  }
}

function shown({
  requests,
  rejected,
  before,
  after,
  upstreamBefore,
  upstreamAfter,
}: Omit<Line, 'account' | 'model'>) {
  return {
    requests,
    rejected,
    before_nanousd: String(before),
    after_nanousd: String(after),
    upstream_before_nanousd: String(upstreamBefore),
    upstream_after_nanousd: String(upstreamAfter),
  } satisfies Omit<BacktestLine, 'account' | 'name' | 'model'>;
}

function countRejected(
  of: Map<string, RejectedOf>,
  id: string,
  { account, position, at }: DifferingCall,
): void {
  const moment: LogMoment = { position, at };
  const known = of.get(id);
  if (known !== undefined) {
    known.rejected++;
    known.last = moment;
  } else if (of.size < SUBJECTS_MAX)
    of.set(id, { id, name: null, account, rejected: 1, first: moment, last: moment });
}

const byRejections = (
  one: { rejected: number; first: LogMoment },
  other: { rejected: number; first: LogMoment },
): number => other.rejected - one.rejected || one.first.position - other.first.position;

function mostRejected(
  of: ReadonlyMap<string, RejectedOf>,
  nameOf: (id: string) => string | null,
): RejectedOf[] {
  return [...of.values()]
    .toSorted(byRejections)
    .slice(0, LISTED_MAX)
    .map((each) => ({ ...each, name: nameOf(each.id) }));
}

/** Codes of rejections that terms and limits decide: those that a back-test decides again. */
export const isEvaluated = ({ model, error_code: code }: EventOf<'request.rejected'>): boolean =>
  model !== undefined && EVALUATED.has(code);
const EVALUATED: ReadonlySet<string> = new Set([
  'rate_limit_exceeded',
  'insufficient_quota',
  'model_not_permitted',
  'model_not_priced',
  'route_not_permitted',
  'plan_not_active',
]);
