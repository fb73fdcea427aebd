import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { AT } from '#db/log/columns.ts';

import { cellsOf } from '#db/log/line.ts';
import { holderOf, parseSubject, PER_NAMES, perCode, perOf, subjectsOf } from '#db/limits/subjects.ts';
import { chargesOf, holdersIn } from '#db/projections/page/charges.ts';
import { EVENT_CODES } from '#db/events/events.ts';
import { requestLine } from '../support/log/request-line.ts';
import { createDatabase } from '../support/database.ts';
import { accepted, connectAs, settled } from '../support/log/log-writer.ts';
import { expectedSubjects } from '../support/subjects.ts';

const id = fc.stringMatching(/^[0-9A-Za-z]{8}$/);
const pseudonym = fc.stringMatching(/^[0-9A-Za-z]{16}$/);
const anyCall = fc
  .record(
    {
      account: id,
      key: id,
      parents: fc.array(id, { minLength: 1, maxLength: 2 }),
      end_user: pseudonym,
      session: pseudonym,
      tags: fc.array(pseudonym, { minLength: 1, maxLength: 8 }),
    },
    { requiredKeys: ['account', 'key'] },
  )
  .filter(({ account, parents = [] }) => new Set([account, ...parents]).size === parents.length + 1);

test('admission, audit, projections and recovery charge a call to the same subjects', async () => {
  await using database = await createDatabase();
  const owner = await connectAs(database, 'owner');
  await fc.assert(
    fc.asyncProperty(anyCall, async (call) => {
      const expected = expectedSubjects(call).toSorted(byName);
      expect(subjectsOf(call).toSorted(byName)).toEqual(expected);
      for (const { name, holder, per } of expected) expect(holderOf(name)).toEqual({ holder, per });

      const begin = accepted({ ...call, model: 'm', hold_tokens: 1, admitted_minute: 5, terms_position: 1 });
      const end = settled(begin, { ...call, admitted_minute: 5, terms_position: 1 });
      const events = [begin, end].map((event, index) => ({
        type: EVENT_CODES[event.type],
        position: 10 + index,
        at: '2026-01-01 00:00:00+00',
        instance: 1,
        cells: cellsOf(requestLine(event)),
      }));
      const page = events as unknown as Parameters<typeof chargesOf>[0];
      const holders = new Set(expected.map(({ holder }) => holder));
      expect(holdersIn(page)).toEqual(holders);
      const kinds = new Set([null, ...PER_NAMES].map(perCode));
      const sums = chargesOf(page, new Map([...holders].map((holder) => [holder, kinds]))).whole;
      expect(
        sums
          .map(({ subject, holder, per, account }) => ({ name: subject, holder, per: perOf(per), account }))
          .toSorted(byName),
      ).toEqual(expected);
      // Subjects that no terms limit are skipped.
      const [only] = holders;
      const limited = new Map([[only as string, new Set([perCode('tag')])]]);
      expect(
        chargesOf(page, limited)
          .whole.map(({ subject }) => subject)
          .toSorted(),
      ).toEqual(expected.flatMap((one) => (one.holder === only && one.per === 'tag' ? [one.name] : [])));

      const { rows } = await owner.query<{ name: string; holder: string; per: number; account: string }>({
        text: `select s.subject as name, s.holder, s.per, s.account
          from daybook.subjects_of($1, $2, $3, $4, $5, $6) s`,
        values: (['account', 'parents', 'key', 'end_user', 'session', 'tags'] as const).map(
          (name) => events[0]?.cells[AT[name]] ?? null,
        ),
      });
      expect(rows.map((row) => ({ ...row, per: perOf(row.per) })).toSorted(byName)).toEqual(expected);
    }),
    { numRuns: 60 },
  );
  await owner.end();
});

test('a name of a subject says whose it is', () => {
  expect(parseSubject('account/Account1')).toMatchObject({ kind: 'account', account: 'Account1', key: null });
  expect(parseSubject('key/Key00001')).toMatchObject({ kind: 'key', account: null, key: 'Key00001' });
  expect(parseSubject('tag/Account1/T')).toEqual({
    kind: 'tag',
    account: 'Account1',
    key: null,
    pseudonym: 'T',
  });
  expect(parseSubject('end_user/Account1/Key00001/U')).toEqual({
    kind: 'end_user',
    account: 'Account1',
    key: 'Key00001',
    pseudonym: 'U',
  });
  expect(() => parseSubject('plan/one')).toThrow(RangeError);
});

const byName = (one: { name: string }, other: { name: string }): number => (one.name < other.name ? -1 : 1);
