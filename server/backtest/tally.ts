import type { EventOf } from '#db/events/events.ts';
import { ExactSum } from '#server/backtest/exact-sum.ts';
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

type Amount = 'before' | 'after' | 'upstreamBefore' | 'upstreamAfter';

/** Settled requests of an account to a model. */
class Line {
  readonly account: string;
  readonly model: string;
  requests = 0;
  rejected = 0;
  readonly before = new ExactSum();
  readonly after = new ExactSum();
  readonly upstreamBefore = new ExactSum();
  readonly upstreamAfter = new ExactSum();

  constructor(account: string, model: string) {
    this.account = account;
    this.model = model;
  }

  add({ isRejected, before, after, upstreamBefore, upstreamAfter }: SettledCosts): void {
    this.requests++;
    if (isRejected) this.rejected++;
    this.before.add(before);
    this.after.add(after);
    this.upstreamBefore.add(upstreamBefore);
    this.upstreamAfter.add(upstreamAfter);
  }
}

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
    newly_observed: 0,
    newly_admitted: 0,
    not_evaluated: 0,
  };
  abandoned = 0;
  unpricedBefore = 0;
  unpricedAfter = 0;
  newlyAdmittedCost = 0n;
  readonly #codes = new Map<string, number>();
  /** By account and model. */
  readonly #lines = new Map<string, Map<string, Line>>();
  #lineCount = 0;
  readonly #others = new Line('', '');
  readonly #accounts = new Map<string, RejectedOf>();
  readonly #keys = new Map<string, RejectedOf>();
  readonly #endUsers = new Map<string, RejectedOf>();
  readonly #limits = new Map<string, LimitHit & { names: Set<string> }>();

  /** Adds a call whose outcome differs. */
  add(call: DifferingCall): void {
    const { calls } = this;
    switch (call.outcome) {
      case 'shortened':
        calls.shortened++;
        return;
      case 'admitted':
        calls.newly_admitted += call.count;
        return;
      case 'observed':
        calls.newly_observed++;
        break;
      case 'rejected':
        calls.newly_rejected++;
        this.#countRejection(call);
    }
    for (const limit of call.limits) this.#countLimit(limit, call);
  }

  #countRejection(call: DifferingCall): void {
    const { account, key, end_user: endUser, error_code: code } = call;
    if (code !== null) this.#codes.set(code, (this.#codes.get(code) ?? 0) + 1);
    countRejected(this.#accounts, account, call);
    countRejected(this.#keys, key, call);
    if (endUser !== null) countRejected(this.#endUsers, endUser, call);
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
  addCosts(costs: SettledCosts): void {
    this.#lineOf(costs.account, costs.model).add(costs);
  }

  #lineOf(account: string, model: string): Line {
    const known = this.#lines.get(account)?.get(model);
    if (known !== undefined) return known;
    if (this.#lineCount >= LINES_MAX) return this.#others;
    let ofAccount = this.#lines.get(account);
    if (ofAccount === undefined) this.#lines.set(account, (ofAccount = new Map()));
    const line = new Line(account, model);
    ofAccount.set(model, line);
    this.#lineCount++;
    return line;
  }

  /** The report, with the names that accounts and keys have now. */
  report(
    names: ReadModel,
    range: Pick<BacktestReport, 'from' | 'to' | 'first_position' | 'period_position' | 'last_position'>,
  ): BacktestReport {
    const counted = [...this.#lines.values()]
      .flatMap((ofAccount) => [...ofAccount.values()])
      .toSorted(byName);
    if (this.#others.requests > 0) counted.unshift(this.#others);
    const lines = counted.map((line) => ({
      account: line.account,
      name: names.account(line.account)?.name ?? line.account,
      model: line.model,
      ...shown([line]),
    }));
    return {
      object: 'backtest',
      ...range,
      calls: this.calls,
      error_codes: Object.fromEntries([...this.#codes].toSorted(([one], [other]) => (one < other ? -1 : 1))),
      cost: { ...shown(counted), newly_admitted_nanousd: String(this.newlyAdmittedCost) },
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

/**
 * The report with at most so many lines: those that changed most. The rest is one line, as beyond the bound
 * of lines.
 */
export function withFewerLines(report: BacktestReport, linesMax: number): BacktestReport {
  const { lines } = report;
  if (lines.length <= linesMax) return report;
  const byChange = lines
    .filter(({ account }) => account !== '')
    .toSorted((one, other) => Number(changeOf(other) - changeOf(one)));
  const kept = new Set(byChange.slice(0, linesMax - 1));
  const rest = lines.filter((line) => !kept.has(line));
  const count = (of: 'requests' | 'rejected'): number => rest.reduce((sum, line) => sum + line[of], 0);
  const add = (of: `${'' | 'upstream_'}${'before' | 'after'}_nanousd`): string =>
    String(rest.reduce((sum, line) => sum + BigInt(line[of]), 0n));
  const others: BacktestLine = {
    ...{ account: '', name: '', model: '', requests: count('requests'), rejected: count('rejected') },
    before_nanousd: add('before_nanousd'),
    after_nanousd: add('after_nanousd'),
    upstream_before_nanousd: add('upstream_before_nanousd'),
    upstream_after_nanousd: add('upstream_after_nanousd'),
  };
  return { ...report, lines: [others, ...lines.filter((line) => kept.has(line))] };
}

function changeOf({ before_nanousd: before, after_nanousd: after }: BacktestLine): bigint {
  const difference = BigInt(after) - BigInt(before);
  return difference < 0n ? -difference : difference;
}

const byName = (one: Line, other: Line): number =>
  `${one.account} ${one.model}` < `${other.account} ${other.model}` ? -1 : 1;

/** The sum of lines. */
function shown(lines: readonly Line[]) {
  const sum = (amount: Amount): string =>
    String(lines.reduce((total, line) => total + line[amount].value, 0n));
  return {
    requests: lines.reduce((total, { requests }) => total + requests, 0),
    rejected: lines.reduce((total, { rejected }) => total + rejected, 0),
    before_nanousd: sum('before'),
    after_nanousd: sum('after'),
    upstream_before_nanousd: sum('upstreamBefore'),
    upstream_after_nanousd: sum('upstreamAfter'),
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
