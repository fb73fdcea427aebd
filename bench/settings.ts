import { parseArgs } from 'node:util';
import { type WorkloadName, WORKLOADS } from './workloads.ts';

export type Settings = {
  bench: (typeof BENCHES)[number];
  targets: string[];
  work: WorkloadName[];
  /** The rates of the ladder, in calls a second. */
  rates: number[];
  rounds: number;
  secs: number;
  /** Null: as long as each workload needs. */
  warmupSecs: number | null;
  /** Fewer connections and streams at a time than the workloads have; null: as many. */
  connectionsMax: number | null;
  keyCount: number;
  /** The length of the projector's backlog, and of the month. */
  events: number;
  /** How many requests there are in the tables that are asked. */
  requestCount: number;
  /** The share of one CPU that others may use in a round that counts. */
  neighborsMax: number;
  /** A checkout of an earlier commit that is measured in turn with this one; null: none. */
  before: string | null;
  /** Other gateways that are measured beside this: each `NAME=DIR`, see `targets/gateway.ts`. */
  gateways: string[];
  /** Where the figures go as JSON; null: nowhere. */
  out: string | null;
};

/** The command line was not understood; the message says what of it. */
export class UsageError extends Error {
  override name = 'UsageError';
}

const BENCHES = [
  'relay',
  'profile',
  'ladder',
  'log',
  'projector',
  'tables',
  'feed',
  'page',
  'translation',
  'admission',
  'month',
  'telemetry',
] as const;
const ALL = Object.keys(WORKLOADS) as WorkloadName[];
const PROFILED: WorkloadName[] = ['json', 'chat-40'];
const RATES = [0, 1, 10, 100, 500, 1_000];
export const TARGETS = ['direct', 'bare', 'nginx', 'daybook', 'daybook-overlapped', 'bare-reply'];

export const USAGE = `npm run bench -- [BENCH] [options]

BENCH: ${BENCHES.join(', ')} (relay)

Measures Daybook beside a bare Node proxy and nginx, in one run, and compares it with its goals.
With "profile": where a small JSON call and a streamed chunk use CPU time and allocate memory.
With "ladder": what a call costs the whole installation, from no calls to 1,000 a second.
With "log": how fast the event log takes events, and how fast a follower reads them.
With "projector": how fast a backlog is projected, whether rightly, and what that costs appends.
With "tables": how long the dashboard's questions take, by how much is in the projections' tables.
With "feed": how long an event takes to a viewer of the live feed, and what a thousand viewers cost.
With "page": how soon the dashboard shows its figures, and how smooth it is under load, in a real browser.
With "translation": the cost per chunk of each reader of streamed replies, and of passing them through.
With "telemetry": what the hooks of metrics and traces cost a call.
With "admission": what admitting a call costs by the number of its subjects, from leases alone.
With "month": how long statements and back-tests of a month take, with what a call and an account cost.

  --only a,b    targets: ${TARGETS.join(', ')} (all)
  --work x,y    workloads: ${Object.keys(WORKLOADS).join(', ')} (all)
  --rates a,b   rates of the ladder, in calls a second (${RATES.join(',')})
  --rounds N    rounds, of which figures are the median (3)
  --secs N      measured seconds in a round (4)
  --warmup N    seconds of load before them (as long as each workload needs)
  --connections N  at most so many connections at a time, for a trial (as many as each workload has)
  --keys N      live keys in Daybook's log (100000)
  --events N    length of the projector's backlog, and of the month (1000000)
  --requests N  requests in the tables that are asked (1000000)
  --neighbors N the share of a CPU that others may use in a round that counts (0.1)
  --before DIR  also an earlier commit of Daybook: a checkout with its packages installed (none)
  --gateway NAME=DIR  also another gateway that is installed in DIR, may be repeated: portkey, litellm,
                tensorzero, or the path of a description like theirs (none)
  --out FILE    all figures as JSON; with "profile", the profiles are put beside it
  --help        this`;

/** Reads the command line; null when it asks for help. @throws {UsageError} */
export function readSettings(args: string[]): Settings | null {
  const { values, positionals } = parse(args);
  if (values.help === true) return null;
  const bench = BENCHES.find((name) => name === (positionals.join(' ') || 'relay'));
  if (bench === undefined) throw new UsageError(`there is no bench "${positionals.join(' ')}"`);
  return {
    bench,
    targets: listOf('--only', values.only, TARGETS),
    work: listOf('--work', values.work, ALL, bench === 'profile' ? PROFILED : ALL),
    rates: values.rates?.split(',').map((rate) => numberOf('--rates', rate, 0)) ?? RATES,
    rounds: numberOf('--rounds', values.rounds ?? '3'),
    secs: numberOf('--secs', values.secs ?? '4'),
    warmupSecs: values.warmup === undefined ? null : numberOf('--warmup', values.warmup),
    connectionsMax: values.connections === undefined ? null : numberOf('--connections', values.connections),
    keyCount: numberOf('--keys', values.keys ?? '100000'),
    events: numberOf('--events', values.events ?? '1000000'),
    requestCount: numberOf('--requests', values.requests ?? '1000000'),
    neighborsMax: numberOf('--neighbors', values.neighbors ?? '0.1', 0),
    before: values.before ?? null,
    gateways: values.gateway ?? [],
    out: values.out ?? null,
  };
}

function parse(args: string[]) {
  const text = { type: 'string' } as const;
  const options = {
    only: text,
    work: text,
    rates: text,
    rounds: text,
    secs: text,
    warmup: text,
    connections: text,
    keys: text,
    events: text,
    requests: text,
    neighbors: text,
    before: text,
    gateway: { type: 'string', multiple: true } as const,
    out: text,
  };
  try {
    return parseArgs({ args, allowPositionals: true, options: { ...options, help: { type: 'boolean' } } });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function listOf<T extends string>(
  option: string,
  text: string | undefined,
  known: T[],
  byDefault = known,
): T[] {
  const names = text?.split(',') ?? byDefault;
  return names.map((name) => {
    const found = known.find((each) => each === name);
    if (found === undefined)
      throw new UsageError(`${option}: there is no "${name}", only ${known.join(', ')}`);
    return found;
  });
}

function numberOf(option: string, text: string, atLeast = Number.MIN_VALUE): number {
  const value = Number(text);
  if (!(value >= atLeast)) {
    const bound = atLeast === 0 ? 'of at least 0' : 'above 0';
    throw new UsageError(`${option} takes a number ${bound}, not "${text}"`);
  }
  return value;
}
