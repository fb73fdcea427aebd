import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { recoverInstance, registerInstance, retireInstance } from '#db/instances/instance.ts';
import { type LeaseRequest, compareNames, exchange, type LeaseLine, type Need } from '#db/limits/leases.ts';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { type Meter, METERS } from '#db/limits/meters.ts';
import { FencedError } from '#db/log/append.ts';
import { minuteOf, windowStart } from '#db/limits/windows.ts';
import { DeadError, type LogRow, nameOf, SimStore } from '../sim/store.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, connectAs, openWriter, settled, type Writer } from '../support/log/log-writer.ts';

const WHO = {
  account: 'Account1',
  key: 'Key00001',
  model: 'm',
  parents: ['Account2'],
  end_user: 'U'.repeat(16),
  session: 'S'.repeat(16),
  tags: ['T'.repeat(16), 'V'.repeat(16)],
};
const KINDS = Object.keys(WINDOW_KINDS) as WindowKind[];

/** A limit that the steps of a run are about. */
type Limit = { subject: string; meter: Meter; window: WindowKind };
const LIMITS: readonly Limit[] = [
  { subject: 'account/Account1', meter: 'concurrent', window: 'none' },
  { subject: 'account/Account1', meter: 'requests', window: 'hour' },
  { subject: 'account/Account1', meter: 'tokens', window: 'day' },
  { subject: 'key/Key00001', meter: 'cost_nanousd', window: 'month' },
  { subject: 'account/Account2', meter: 'cost_nanousd', window: 'lifetime' },
  { subject: `end_user/Account1/${WHO.end_user}`, meter: 'tokens', window: 'week' },
  { subject: `session/Account1/Key00001/${WHO.session}`, meter: 'tokens', window: 'lifetime' },
  { subject: `tag/Account2/${WHO.tags[1]}`, meter: 'requests', window: 'lifetime' },
];

const amount = fc.oneof(fc.nat(3), fc.nat(40), fc.nat(1_000));
const lineStep = fc.record({
  limit: fc.nat(LIMITS.length - 1),
  cap: fc.option(amount, { nil: undefined }),
  isReset: fc.boolean(),
  /** What of its free units becomes used, overdrawn, held and returned, in thirds. */
  moves: fc.tuple(fc.nat(3), fc.nat(2), fc.nat(3)),
  strict: fc.boolean(),
  closes: fc.boolean(),
  stock: amount,
});
const needStep = fc.record({ line: fc.nat(3), minimum: amount, more: amount });
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('exchange' as const),
      instance: fc.nat(2),
      lines: fc.array(lineStep, { minLength: 1, maxLength: 4 }),
      requests: fc.array(fc.array(needStep, { minLength: 1, maxLength: 2 }), { maxLength: 4 }),
      isRepeated: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('accept' as const),
      instance: fc.nat(2),
      tokens: fc.nat(50),
      cost: fc.nat(90),
      isOfOldTerms: fc.boolean(),
      /** The limits that would have rejected it. */
      observed: fc.oneof(fc.constant<number[]>([]), fc.subarray([...LIMITS.keys()])),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), index: fc.nat(9), tokens: fc.nat(60) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('recover' as const), instance: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('retire' as const), instance: fc.nat(2) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What an instance believes of one lease, as far as the steps need it to tell no lies. */
type Belief = { line: LeaseLine; granted: number; isAnswered: boolean };

/** Runs the steps on both stores and compares what they say and what is then in them. */
class Both {
  readonly sim = new SimStore();
  readonly #writers: Writer[] = [];
  readonly #beliefs = new Map<string, Belief>();
  readonly #open: { event: ReturnType<typeof accepted>; instance: number }[] = [];
  readonly #terms = new Map<string, { cap: number; position: number; reset: number }>();
  readonly #database: TestDatabase;
  #position = 0;

  constructor(database: TestDatabase) {
    this.#database = database;
  }

  async open(): Promise<void> {
    for (let count = 0; count < 3; count++) {
      this.#writers.push(await openWriter(this.#database));
      this.sim.register();
    }
    // What came before in the log is of no interest: other subjects, whose rows the twin has as such.
    for (const [index] of LIMITS.entries())
      this.#terms.set(String(index), { cap: 500, position: 1, reset: 0 });
  }

  async close(): Promise<void> {
    for (const writer of this.#writers) await writer.client.end();
  }

  async run(each: Step): Promise<void> {
    if (each.kind === 'exchange') await this.#exchange(each);
    else if (each.kind === 'accept') await this.#accept(each);
    else if (each.kind === 'settle') await this.#settle(each);
    else await this.#end(each);
    await this.compare();
  }

  async #exchange({ instance, lines, requests, isRepeated }: Step & { kind: 'exchange' }): Promise<void> {
    const chosen = [...new Map(lines.map((line) => [line.limit, line])).values()].map((line) =>
      this.#line(instance, line),
    );
    const sorted = chosen.toSorted((a, b) => compareNames(a.line, b.line));
    const needs = requests.map((request) =>
      [...new Map(request.map((need) => [need.line % sorted.length, need])).entries()].map(
        ([line, { minimum, more }]): Need => ({ line, minimum, wanted: minimum + more }),
      ),
    );
    const ask: LeaseRequest = {
      position: this.#position,
      lines: sorted.map(({ line }) => ({ ...line })),
      requests: needs,
    };
    for (let times = isRepeated ? 2 : 1; times > 0; times--) {
      const client = (this.#writers[instance] as Writer).client;
      const real = await exchange(client, this.#writers[instance]?.instance as number, ask).catch(
        (error: unknown) => error,
      );
      const nowMs = real instanceof Error ? 0 : (real as { now: Date }).now.getTime();
      let twin: unknown;
      try {
        twin = this.sim.exchange(instance + 1, ask, nowMs);
      } catch (error) {
        twin = error;
      }
      if (twin instanceof DeadError || real instanceof Error) {
        expect(twin).toBeInstanceOf(DeadError);
        expect(real).toBeInstanceOf(FencedError);
        return;
      }
      expect(real).toEqual(twin);
      for (const [index, { granted }] of (real as Awaited<ReturnType<typeof exchange>>).lines.entries()) {
        Object.assign(sorted[index] as Belief, { granted, isAnswered: true });
      }
    }
  }

  /** The lease with some of its free units moved on; totals only rise, and none is more than was granted. */
  #line(
    instance: number,
    {
      limit: index,
      cap,
      isReset,
      moves,
      strict,
      closes,
      stock,
    }: typeof lineStep extends fc.Arbitrary<infer T> ? T : never,
  ): Belief {
    const limit = LIMITS[index] as Limit;
    const terms = this.#terms.get(String(index)) as { cap: number; position: number; reset: number };
    if (cap !== undefined) {
      terms.position++;
      Object.assign(terms, { cap, ...(isReset && limit.window !== 'none' ? { reset: terms.position } : {}) });
    }
    const start = windowStart(limit.window, minuteOf(Date.now()));
    const name = { ...limit, start, reset: terms.reset };
    const key = `${instance} ${nameOf(name)}`;
    const belief = this.#beliefs.get(key) ?? {
      line: {
        ...name,
        cap: 0,
        terms: 0,
        since: terms.position,
        returned: 0,
        used: 0,
        overdrawn: 0,
        held: 0,
        strict,
        closes,
        stock,
      },
      granted: 0,
      isAnswered: false,
    };
    this.#beliefs.set(key, belief);
    const { line } = belief;
    Object.assign(line, { cap: terms.cap, terms: terms.position, strict, closes, stock });
    line.held = Math.min(line.held, belief.granted - line.returned - line.used);
    const part = (thirds: number): number =>
      Math.floor(((belief.granted - line.returned - line.used - line.held) * thirds) / 3);
    line.used += part(moves[0]);
    line.held += part(moves[2]);
    line.returned += strict || closes ? part(3) : part(1);
    line.overdrawn += moves[1] === 2 ? 3 : 0;
    line.since -= moves[1] === 1 && line.since > 0 ? 1 : 0;
    return belief;
  }

  async #accept({
    instance,
    tokens,
    cost,
    isOfOldTerms,
    observed: named,
  }: Step & { kind: 'accept' }): Promise<void> {
    if (!this.sim.isLive(instance + 1)) return;
    const terms = isOfOldTerms ? 0 : Math.max(...[...this.#terms.values()].map(({ position }) => position));
    const observed = named.map((index) => {
      const { subject, meter, window } = LIMITS[index] as (typeof LIMITS)[number];
      return { subject, meter, window, limit: 1, needed: 1 };
    });
    const event = accepted({
      ...WHO,
      ...(observed.length === 0 ? {} : { observed }),
      hold_tokens: tokens,
      hold_cost_nanousd: cost,
      admitted_minute: minuteOf(Date.now()),
      terms_position: terms,
    });
    await this.#append(instance, event, {
      type: 'accepted',
      tokens,
      cost,
      minute: event.admitted_minute as number,
      terms,
      request: event.request,
      observed,
    });
    this.#open.push({ event, instance });
  }

  async #settle({ index, tokens }: Step & { kind: 'settle' }): Promise<void> {
    const [one] = this.#open.splice(index % Math.max(1, this.#open.length), 1);
    if (!one || !this.sim.isLive(one.instance + 1)) return;
    const { admitted_minute = 0, terms_position = 0, observed } = one.event;
    const event = settled(one.event, {
      input_tokens: tokens,
      output_tokens: 1,
      cost_nanousd: tokens * 2,
      admitted_minute,
      terms_position,
      ...(observed === undefined ? {} : { observed }),
    });
    await this.#append(one.instance, event, {
      type: 'settled',
      tokens: tokens + 1,
      cost: tokens * 2,
      minute: admitted_minute,
      terms: terms_position,
      request: event.request,
      observed,
    });
  }

  async #append(
    instance: number,
    event: Parameters<Writer['append']>[0][number],
    row: Pick<LogRow, 'type' | 'tokens' | 'cost' | 'minute' | 'terms' | 'request' | 'observed'>,
  ): Promise<void> {
    this.#position = await (this.#writers[instance] as Writer).append([event]);
    const { model: _model, ...who } = WHO;
    const full: LogRow = { ...row, instance: instance + 1, ...who };
    expect(this.sim.append([full])).toBe(this.#position);
  }

  async #end({ kind, instance }: Step & { kind: 'recover' | 'retire' }): Promise<void> {
    const client = (this.#writers[instance] as Writer).client;
    const nowMs = Date.now();
    if (kind === 'retire') {
      if (this.#open.some((one) => one.instance === instance)) return;
      await retireInstance(client, this.#writers[instance]?.instance as number);
      return this.sim.retire(instance + 1, nowMs);
    }
    const by = [0, 1, 2].find((other) => other !== instance && this.sim.isLive(other + 1));
    if (by === undefined) return;
    const count = await recoverInstance(
      client,
      this.#writers[instance]?.instance as number,
      this.#writers[by]?.instance as number,
    );
    this.sim.fence(instance + 1);
    expect(this.sim.recover(instance + 1, by + 1, nowMs)).toBe(count);
    this.#position = this.sim.log.length;
  }

  async compare(): Promise<void> {
    const client = (this.#writers[0] as Writer).client;
    const text = (columns: string): string => `select ${columns}`;
    const allowances = await client.query({
      text: text(`id::int, cap::int, ceiling::int, granted::int, returned::int, overdrawn::int, used::int,
          held::int, terms_position::int as terms, sharers, near,
          case when short_until > '-infinity'
            then (extract(epoch from short_until) * 1000) end::float8 as short
        from daybook.allowance order by id`),
    });
    expect(allowances.rows.map(({ short, ...row }) => ({ ...row, isShort: short !== null }))).toEqual(
      [...this.sim.allowances.values()].map(({ name: _name, shortUntilMs, ...row }) => ({
        ...row,
        isShort: shortUntilMs > -Infinity,
      })),
    );
    const leases = await client.query({
      text: text(`allowance::int, instance, granted::int, returned::int, used::int, overdrawn::int,
          held::int, position::int, since_terms::int as since, is_strict as strict, closed
        from daybook.lease order by 1, 2`),
    });
    const twins = [...this.sim.leases].flatMap(([allowance, rows]) =>
      [...rows].map(([instance, row]) => ({ allowance, instance, ...row })),
    );
    expect(leases.rows).toEqual(
      twins.toSorted((a, b) => a.allowance - b.allowance || a.instance - b.instance),
    );
  }
}

test('leases in Postgres equal the model, over random requests, spending and dead instances', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      await using database = await createDatabase();
      const both = new Both(database);
      await both.open();
      try {
        for (const each of steps) await both.run(each);
        for (const instance of [0, 1]) await both.run({ kind: 'recover', instance });
      } finally {
        await both.close();
      }
    }),
    { numRuns: 25 },
  );
});

test("a dead instance can't spend", async () => {
  await using database = await createDatabase();
  const client = await connectAs(database, 'relay');
  const instance = await registerInstance(client, 'one');
  await retireInstance(client, instance);
  await expect(exchange(client, instance, { position: 0, lines: [], requests: [] })).rejects.toThrow(
    FencedError,
  );
  await client.end();
});

test('Postgres and the server agree on the first minute of every window', async () => {
  await using database = await createDatabase();
  const client = await connectAs(database, 'auditor');
  const edges = [
    '1970-01-01',
    '1999-12-31T23:59',
    '2000-02-29T12:00',
    '2024-02-29T23:59',
    '2026-02-28T23:59',
    '2026-03-29T01:30',
    '2026-12-28',
    '2027-01-01',
    '2096-02-29',
  ];
  const around = edges.flatMap((edge) =>
    [-1, 0, 1, 60, 1_440].map((minutes) =>
      Math.max(0, minuteOf(Date.parse(`${edge.padEnd(16, edge.length > 10 ? '' : 'T00:00')}Z`)) + minutes),
    ),
  );
  const spread = Array.from({ length: 2_000 }, (_, index) => index * 33_413);
  const minutes = [...around, ...spread];
  for (const kind of KINDS) {
    const { rows } = await client.query<{ start: number }>(
      'select daybook.window_start($1, minute) as start from unnest($2::int[]) as minute',
      [WINDOW_KINDS[kind], minutes],
    );
    expect(rows.map(({ start }) => start)).toEqual(minutes.map((minute) => windowStart(kind, minute)));
  }
  await client.end();
});

test('the lock order of allowances is the same in Postgres and in the server', async () => {
  await using database = await createDatabase();
  const client = await connectAs(database, 'relay');
  const instance = await registerInstance(client, 'one');
  const names = ['account/Zz', 'account/aa', 'key/00', 'key/Zz', 'key/zz'].flatMap((subject) =>
    (Object.keys(METERS) as Meter[]).flatMap((meter) =>
      [1, 100].map((start) => ({ subject, meter, window: 'minute' as const, start, reset: 0 })),
    ),
  );
  const line = {
    cap: 1,
    terms: 0,
    since: 0,
    returned: 0,
    used: 0,
    overdrawn: 0,
    held: 0,
    strict: false,
    closes: false,
    stock: 0,
  };
  const sorted = names.toSorted(compareNames);
  await exchange(client, instance, {
    position: 0,
    lines: names.toReversed().map((name) => ({ ...name, ...line })),
    requests: [],
  });
  const { rows } = await client.query<{ subject: string; meter: number; start: number }>(
    `select subject, meter, window_start as start from daybook.allowance
      order by subject, meter, window_kind, window_start, reset_position`,
  );
  expect(rows).toEqual(
    sorted.map(({ subject, meter, start }) => ({ subject, meter: METERS[meter].code, start })),
  );
  await client.end();
});
