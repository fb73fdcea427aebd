import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StateSnapshot } from '#db/audit/replay/snapshot.ts';
import type { StatementReport } from '#db/audit/commands/statement-text.ts';
import { correctionOf, type EndedEvent, NO_CORRECTION } from '#db/fold/correction.ts';
import { leafHash } from '#db/log/chain.ts';
import type { Placed, PlanTerms } from '#db/events/events.ts';
import { publicId } from '#db/ids.ts';
import { readEntries } from '../../support/audit/verify-chain.ts';
import { chat } from '../../support/client.ts';
import { commandLine } from '../../support/servers/command-line.ts';
import { type TestDatabase } from '../../support/database.ts';
import { accepted, extended, openLivingWriter } from '../../support/log/log-writer.ts';
import { projectAll } from '../../support/projections/projected.ts';
import { startRelay, type TestRelay } from '../../support/relay.ts';
import { refusedPort, type ScriptedUpstream, startUpstream } from '../../support/upstream/upstream.ts';
import { declare } from '../../support/upstream/upstreams-live.ts';

/** The audit commands on a log of real requests, with a read-only login. */

const TERMS: PlanTerms = {
  quotas: [
    { meter: 'tokens', window: 'month', limit: 1_000_000, enforcement: 'soft' },
    { meter: 'requests', window: 'day', limit: 1_000, enforcement: 'hard' },
  ],
};
const MONTH = (): string => new Date().toISOString().slice(0, 7);

describe('audit commands on a log of real requests', () => {
  let upstream: ScriptedUpstream;
  let relay: TestRelay;
  let superuser: Client;
  let url: string;
  let requests: string[];
  /** The id of the account created by the first start. */
  let account: string;
  beforeAll(async () => {
    upstream = await startUpstream();
    relay = await startRelay({ upstreams: [upstream] });
    await relay.control((control) =>
      control.setPrice('s:*', {
        base: {
          input: 1_000_000,
          cache_read: 500_000,
          output: 4_000_000,
          reasoning: 4_000_000,
        },
      }),
    );
    await relay.control((control) => control.definePlan('audited', TERMS, 'keep'));
    await relay.createAccount('Audited, Inc');
    await relay.control((control) => control.setPlan('Audited, Inc', 'audited', 'keep'));
    const { secret } = await relay.createKey({ account: 'Audited, Inc' });
    const call = (key: string, script: string, stream: boolean) =>
      chat({
        port: relay.port,
        key,
        body: { model: `s:${script}`, stream, messages: [{ role: 'user', content: 'Hello' }] },
      });
    for (const [index, script] of ['tokens=30', 'status=500', 'tokens=3000', 'tokens=5'].entries()) {
      await Promise.all([call(secret, script, index % 2 === 0), call(relay.key, script, true)]);
    }
    // An open request with an extended reservation.
    const writer = await openLivingWriter(relay.store);
    const first = (await relay.readLog()).find(
      ({ event }) => event.type === 'account.registered' && event.name === relay.account,
    )?.event as { account: string };
    ({ account } = first);
    const open = accepted({ account, hold_tokens: 77 });
    await writer.append([open, extended(open, { hold_tokens: 99 })]);
    await writer[Symbol.asyncDispose]();
    const log = await relay.waitFor(
      (events) => events.filter(({ event }) => event.type === 'request.settled').length === 8,
    );
    requests = log.flatMap(({ event }) => (event.type === 'request.settled' ? [event.request] : []));
    await projectAll(relay.store);
    superuser = await (relay.store as TestDatabase).superuser();
    url = await auditorUrl(relay.store as TestDatabase, superuser);
  });
  afterAll(async () => {
    if (superuser) {
      await relay.stop();
      await superuser.query(`drop role "${new URL(url.replace('@/', '@localhost/')).username}"`);
      await superuser.end();
    }
    await relay?.[Symbol.asyncDispose]();
    await upstream?.[Symbol.asyncDispose]();
  });
  // A DAYBOOK_DATA that can't exist, so that no local store is used.
  const { daybook, json, text } = commandLine(() => ({ DAYBOOK_DATA: '/nowhere', DATABASE_URL: url }));
  const queryRows = async <T extends object>(query: string): Promise<T[]> =>
    (await superuser.query<T>(query)).rows;

  test('audit replay: totals equal the projections, and open requests are listed', async () => {
    const shown = await json<StateSnapshot>('audit', 'replay');
    expect(shown.fault_count).toBe(0);
    expect(shown.usage).toHaveLength(8);
    const projected = await queryRows(`select account, key, model,
        sum(completed + client_disconnected + upstream_failed + cut_short + relay_failed)::integer
          as requests,
        sum(input_tokens)::integer as input_tokens,
        sum(output_tokens)::integer as output_tokens,
        sum(cost_nanousd)::text as cost_nanousd, sum(unpriced)::integer as unpriced
        from projection.usage_day group by 1, 2, 3 order by 1, 2, 3`);
    expect(projected.map((row) => expect.objectContaining(row) as unknown)).toEqual(shown.usage);
    expect(shown.open_requests).toMatchObject([{ account, hold_tokens: 99 }]);
    const windows = await queryRows(
      `select subject, cap::integer as "limit", used::integer as settled, held::integer
        from projection.quota_window order by 1, meter`,
    );
    expect(windows).toHaveLength(2);
    expect(shown.windows.toSorted((one, other) => (one.meter < other.meter ? -1 : 1))).toMatchObject(windows);
    expect(shown.accounts.map(({ name, plan }) => [name, plan])).toContainEqual(['Audited, Inc', 'audited']);
    // What the worker does every minute.
    await superuser.query('select daybook.append_readings()');
    const log = await relay.readLog();
    expect(log.at(-1)?.event).toMatchObject({
      type: 'log.read',
      actor: expect.stringMatching(/^login\/reader_/) as string,
      what: 'replay',
      from_position: 1,
      to_position: shown.position,
    });
  });

  test('audit replay --at: shows the state at a position or a point in time', async () => {
    const log = await relay.readLog();
    const first = log.find(({ event }) => event.type === 'request.accepted') as Placed;
    const before = await json<StateSnapshot>('audit', 'replay', '--at', String(first.position - 1));
    expect([before.position, before.open_requests, before.usage]).toEqual([first.position - 1, [], []]);
    const then = await json<StateSnapshot>('audit', 'replay', '--at', first.at.toISOString());
    expect(then.position).toBe(log.findLast(({ at }) => at <= first.at)?.position);
    expect(then.open_requests.length).toBeGreaterThan(0);
    const one = await json<StateSnapshot>('audit', 'replay', '--account', 'Audited, Inc');
    expect([one.accounts.length, one.usage.length, one.open_requests.length]).toEqual([1, 4, 0]);
    expect(await text('audit', 'replay')).toMatch(
      /Every request was accepted once and ended at most once[^]*events\/s\.\n$/,
    );
    for (const wrong of [
      ['--at', '999999'],
      ['--at', 'yesterday'],
      ['--account', 'missing'],
    ])
      expect(await daybook('audit', 'replay', ...wrong)).toMatchObject({ code: 1, stdout: '' });
  });

  test('audit statement --all: the statements add up to the log, as text and as CSV', async () => {
    const shown = await json<StatementReport>('audit', 'statement', '--all', '--month', MONTH());
    const [sum] = await queryRows<{ cost: string; calls: number }>(
      `select sum(cost_nanousd)::text as cost, count(*) filter (where type in (101,
        102))::integer as calls from daybook.events() where type = 101`,
    );
    expect(Number(sum?.cost)).toBeGreaterThan(0);
    expect(shown.total).toEqual({
      requests: sum?.calls,
      cost_nanousd: sum?.cost,
      log_requests: sum?.calls,
      log_cost_nanousd: sum?.cost,
      is_equal: true,
    });
    const csv = (await text('audit', 'statement', '--all', '--month', MONTH(), '--csv'))
      .trimEnd()
      .split('\r\n');
    const column = (csv[0] as string).split(',').indexOf('cost_nanousd');
    const named = csv.slice(1).map((line) => line.replace('"Audited, Inc"', 'Audited').split(','));
    expect(named.reduce((all, cells) => all + Number(cells[column]), 0)).toBe(Number(sum?.cost));
    const own = await json<StatementReport>(
      'audit',
      'statement',
      '--account',
      'Audited, Inc',
      '--month',
      MONTH(),
    );
    expect(own.statements).toEqual(shown.statements.filter(({ name }) => name === 'Audited, Inc'));
    expect(await text('audit', 'statement', '--account', 'Audited, Inc', '--month', MONTH())).toContain(
      `4 requests: ${own.statements[0]?.cost_nanousd} nano-dollars`,
    );
    expect(
      (await json<StatementReport>('audit', 'statement', '--all', '--month', '1999-01')).total?.requests,
    ).toBe(0);
    expect((await daybook('audit', 'statement', '--month', MONTH())).stderr).toContain('--all');
  });

  test('audit trace: shows every event of a request, with or without the projection', async () => {
    const log = await relay.readLog();
    const grown = log.find(
      ({ event }) => event.type === 'request.extended' && requests.includes(event.request),
    )?.event as { request: string } | undefined;
    for (const request of [requests[0], grown?.request ?? requests[1]].filter((each) => each !== undefined)) {
      const positions = log.flatMap(({ event, position }) =>
        'request' in event && event.request === request ? [position] : [],
      );
      const traced = async () =>
        json<{ events: { position: number; leaf_hash: string; batch: { last_position: number } }[] }>(
          'audit',
          'trace',
          request,
        );
      const found = await traced();
      expect(found.events.map(({ position }) => position)).toEqual(positions);
      const entries = await readEntries(superuser);
      expect(found.events.map(({ leaf_hash }) => leaf_hash)).toEqual(
        positions.map((position) => leafHash(entries[position - 1] as string).toString('hex')),
      );
      expect(found.events.every(({ position, batch }) => batch.last_position >= position)).toBe(true);
      await superuser.query('alter table projection.request rename to elsewhere');
      expect(await traced()).toEqual(found);
      await superuser.query('alter table projection.elsewhere rename to request');
    }
    expect(await text('audit', 'trace', requests[0] as string)).toMatch(/accepted for s:[^]*settled: \w+/);
    const ended = log.flatMap(({ event }) => (event.type === 'request.settled' ? [event] : []));
    const [one, other] = ended as [EndedEvent, EndedEvent];
    const origin = { reason: 'test', adjusted_by: 'command-line' };
    await using writer = await openLivingWriter(relay.store);
    const last = await writer.correct([
      correctionOf(one, { ...NO_CORRECTION, cost_nanousd: -7 }, { ...origin, reference: 'bill 1' }),
      correctionOf(other, { ...NO_CORRECTION, cost_nanousd: -8 }, { ...origin, reference: 'bill 1' }),
    ]);
    const corrected = await text('audit', 'trace', one.request);
    expect(corrected).toMatch(
      new RegExp(`settled: [^]*position ${last - 1}, .*: corrected by command-line, reference bill 1: .* -7`),
    );
    // By a space, because the request's id may hold the same characters.
    expect(corrected).not.toMatch(/ -8\b/);
    expect((await daybook('audit', 'trace', '01970000-0000-7000-8000-000000000000')).stderr).toContain(
      'has no event in the log',
    );
    expect((await daybook('audit', 'trace', 'x')).stderr).toContain('is not a request id');
  });

  test('audit diff, statements: attributed calls, parents, attempts, an erasure', async () => {
    const own = commandLine(() => ({
      DATABASE_URL: (relay.store as TestDatabase).url,
      DAYBOOK_DATA: relay.dataDir,
      LOG_LEVEL: 'silent',
    }));
    const limit = 1_000_000;
    await relay.createAccount('Organization');
    await relay.createAccount('Team');
    await relay.control(async (control) => {
      const quotas: PlanTerms['quotas'] = [
        { meter: 'tokens', window: 'day', limit, enforcement: 'soft' },
        ...(['end_user', 'session', 'tag'] as const).map((per) => ({
          ...{ per, meter: 'requests' as const, limit, enforcement: 'hard' as const },
          window: per === 'session' ? ('lifetime' as const) : ('month' as const),
        })),
      ];
      await control.definePlan('attributed', { quotas }, 'keep');
      for (const name of ['Organization', 'Team']) await control.setPlan(name, 'attributed', 'keep');
      await control.setParent('Team', 'Organization');
    });
    await declare(relay, {
      upstreams: {
        refused: { base_url: `http://127.0.0.1:${await refusedPort()}/v1` },
        answering: { base_url: upstream.baseUrl },
      },
      models: {
        'falls-back': {
          targets: [{ upstream: 'refused' }, { upstream: 'answering', model: 's:tokens=7', order: 1 }],
        },
      },
    });
    const { secret } = await relay.createKey({ account: 'Team' });
    for (const [index, model] of ['falls-back', 's:tokens=9', 's:status=500', 'falls-back'].entries()) {
      const headers = {
        'x-daybook-user': `user-${index % 2}`,
        'x-daybook-session': `session-${index}`,
        'x-daybook-tags': 'web,beta',
      };
      const body = { model, messages: [{ role: 'user', content: 'Hello' }] };
      await chat({ port: relay.port, key: secret, headers, body });
    }
    const log = await relay.waitFor((events) => ofTeam(events).length === 4);
    const ended = ofTeam(log);
    expect(Math.max(...ended.map(({ attempt_count: attempts }) => attempts))).toBe(2);
    const [call] = ended as [(typeof ended)[number], ...typeof ended];
    expect([call.parents?.length, call.tags?.length]).toEqual([1, 2]);
    await projectAll(relay.store);
    await own.text(
      ...['usage', 'adjust', '--account', 'Team', '--request', call.request, '--charge=0.5'],
      ...['--output-tokens=11', '--reference', 'bill 7', '--reason', 'reconciled'],
    );
    const user = call.end_user as string;
    const figures = async () => {
      await projectAll(relay.store);
      const month = ['--month', MONTH()];
      // The open request of another account is abandoned some time.
      const { usage, windows } = await json<StateSnapshot>('audit', 'replay');
      const statement = (...filter: string[]) =>
        json<StatementReport>('audit', 'statement', '--account', 'Team', ...month, ...filter);
      return {
        usage: usage.filter((row) => row.account === call.account),
        windows: windows.map(({ subject, meter, settled: units, held }) => [subject, meter, units, held]),
        all: (await statement()).statements,
        own: (await statement('--end-user', user)).statements,
        reported: await queryRows(
          `select sum(cost_nanousd)::text as cost, sum(input_tokens)::text as input,
            sum(completed)::integer as completed from projection.usage_day
              where account = $$${call.account}$$`,
        ),
      };
    };
    const before = await figures();
    const counted = (subject: string): unknown[] =>
      before.windows.filter(([name, meter]) => name === subject && meter === 'requests');
    // Of four calls two are of this user.
    for (const charged of [call.account, call.parents?.[0] as string])
      expect(counted(`end_user/${charged}/${user}`)).toEqual([
        [`end_user/${charged}/${user}`, 'requests', 2, 0],
      ]);
    expect([before.all[0]?.requests, before.own[0]?.requests]).toEqual([4, 2]);
    expect(Number(before.own[0]?.cost_nanousd)).toBeGreaterThanOrEqual(500_000_000);
    expect(await own.json('attribution', 'erase', '--account', 'Team', '--pseudonym', user)).toMatchObject({
      pseudonym: user,
      changed: true,
    });
    expect(await figures()).toEqual(before);
    expect(await daybook('audit', 'diff')).toMatchObject({ code: 0, stderr: '' });
  });

  test('audit diff: finds a row changed by hand, by replay and by the independent fold', async () => {
    const clean = await daybook('audit', 'diff', '--projection', 'usage');
    expect(clean).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\n0 differences, at position \d+\n$/) as string,
    });
    await superuser.query(
      `update projection.usage_day set cost_nanousd = cost_nanousd + 1 where model = 's:tokens=30'
        and account = $1`,
      [account],
    );
    const { code, stdout } = await daybook('audit', 'diff');
    expect(code).toBe(1);
    expect(stdout).toMatch(
      new RegExp(
        `usage_day account=${account} day=\\S+ key=\\S+ model=s:tokens=30: cost_nanousd is (\\d+), ` +
          `not \\d+\n`,
      ),
    );
    expect(stdout).toMatch(
      new RegExp(
        `independent fold: 1 totals differ[^]*usage_day ${account} \\S+ s:tokens=30: cost_nanousd is ` +
          `\\d+, expected \\d+\n`,
      ),
    );
    await superuser.query(
      `update projection.usage_day set cost_nanousd = cost_nanousd - 1 where model = 's:tokens=30'
        and account = $1`,
      [account],
    );
  });
});

/** The ends of the calls with a parent account. */
const ofTeam = (events: readonly Placed[]) =>
  events.flatMap(({ event }) => (event.type === 'request.settled' && event.parents ? [event] : []));

/** The address of a login that is a member of the auditor role alone. */
async function auditorUrl({ url }: TestDatabase, superuser: Client): Promise<string> {
  const login = `reader_${publicId().toLowerCase()}`;
  await superuser.query(
    `create role "${login}" login noinherit password 'read'; grant daybook_auditor to "${login}"`,
  );
  return url.replace(/\/\/[^@]*@/, `//${login}:read@`);
}
