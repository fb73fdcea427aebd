import type { Selectable } from 'kysely';
import type { ClientBase } from 'pg';
import { type ControlEvent, EVENT_CODES, type Placed } from '#db/events/events.ts';
import { adjustedSubject } from '#db/events/quota-events.ts';
import { RequestOrderError } from '#db/fold/request.ts';
import { WINDOW_KINDS } from '#db/limits/limits.ts';
import { METERS, QUOTA_METERS } from '#db/limits/meters.ts';
import { holderOf, perCode } from '#db/limits/subjects.ts';
import { AT } from '#db/log/columns.ts';
import { chargesOf, holdersIn, type Limited, unchargedOf } from '#db/projections/page/charges.ts';
import type { EventPage, PageEvent } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';
import { changeTerms } from '#db/projections/quota-change.ts';
import type { QuotaTermsTable } from '#db/schema/tables.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const EXTENDED = EVENT_CODES['request.extended'];
const ENDED = `${EVENT_CODES['request.settled']}, ${EVENT_CODES['request.abandoned']}`;

const WINDOW = 'subject, meter, window_kind, window_start, reset_position';
/** What follows from the subject. */
const OWNER = 'holder, per, account';
const MINUTE = (at: string): string => `floor(extract(epoch from ${at}) / 60)::integer`;

/** A list with an element for each meter of quotas; its units are in a column of its name. */
const forEachMeter = (element: (meter: string) => string): string => QUOTA_METERS.map(element).join(', ');
/** Parameters that are arrays, each of a column. */
function parameters(columns: Readonly<Record<string, string>>) {
  const types = Object.values(columns);
  return {
    names: Object.keys(columns).join(', '),
    count: types.length,
    place: (first: number): string => types.map((type, index) => `$${first + index}::${type}[]`).join(', '),
  };
}
const UNITS = Object.fromEntries(QUOTA_METERS.map((meter) => [meter, 'bigint']));
/** The events of calls that don't both begin and end in the page. */
const LIFE = parameters({
  position: 'bigint',
  type: 'smallint',
  at: 'timestamptz',
  request: 'uuid',
  account: 'text',
  parents: 'text',
  key: 'text',
  end_user: 'text',
  session: 'text',
  tags: 'text',
  admitted_minute: 'integer',
  terms: 'bigint',
  body: 'text',
  ...UNITS,
});
/** The sums of those that do, by subject. */
const WHOLE = parameters({
  subject: 'text',
  holder: 'text',
  per: 'smallint',
  account: 'text',
  admitted_minute: 'integer',
  terms: 'bigint',
  position: 'bigint',
  recorded_minute: 'integer',
  body: 'text',
  ...UNITS,
});
/** The units of the meter with a code, from the columns of a table. Null for a meter that no quota counts. */
const unitsOf = (code: string, table: string): string => {
  const cases = QUOTA_METERS.map((name) => `when ${METERS[name].code} then ${table}.${name}`);
  return `case ${code} ${cases.join(' ')} end`;
};
/** The subjects that a call is charged to. */
const subjectsOf = (call: string): string =>
  `daybook.subjects_of(${call}.account, ${call}.parents, ${call}.key, ${call}.end_user, ${call}.session,
        ${call}.tags)`;

/** The quotas among `terms` that a call of a subject is charged to: those that were in force for it. */
const CHARGED = (call: string): string =>
  `t.subject = ${call}.holder and t.per = ${call}.per and t.position <= ${call}.terms
        and (t.until_position is null or t.until_position > ${call}.terms)
        and not daybook.is_uncharged(${call}.body, ${call}.subject, t.meter, t.window_kind)`;

/**
 * The newest terms of each window that began before its end; if all began later (clocks differ
 * slightly), the oldest.
 */
const NEWEST = (windows: string, terms: string): string => `
  select distinct on (${WINDOW.replace(/\w+/g, 'w.$&')})
      w.*, t.cap as newest_cap, t.enforcement as newest_enforcement, t.position as newest_position
    from ${windows} w join ${terms} t on t.subject = w.holder and t.per = w.per and t.meter = w.meter
      and t.window_kind = w.window_kind and t.reset_position = w.reset_position
    order by ${WINDOW.replace(/\w+/g, 'w.$&')},
      daybook.window_start(t.window_kind, t.from_minute) <= w.window_start desc,
      case when daybook.window_start(t.window_kind, t.from_minute) <= w.window_start
        then -t.position else t.position end`;

/**
 * The units that calls hold and have used of their windows. A call is charged to the windows of its
 * admission, by the quotas of the terms that it was admitted under; an extension is not charged to a
 * window that has ended. Calls from before the first limits are charged to no window.
 *
 * Calls that begin and end in the page only add to the used units, and come as sums. So do corrections, which
 * add nothing to windows that had ended when they were recorded. Each charge of another
 * call is a row of `open_hold`. Returns a row if a call of the sums has one there.
 */
const CHARGES = `with life as materialized (
    select * from unnest(${LIFE.place(1)}) as l (${LIFE.names})
  ),
  terms as materialized (
    select * from quota_terms where subject = any ($${LIFE.count + WHOLE.count + 1}::text[])
  ),
  begun as materialized (
    select distinct on (a.position) a.*, e.position as end_position,
        ${forEachMeter((meter) => `e.${meter} as settled_${meter}`)}
      from life a
      left join life e on e.request = a.request and e.type in (${ENDED}) and e.position > a.position
      where a.type = ${ACCEPTED} and a.admitted_minute is not null and a.terms < a.position
      order by a.position, e.position
  ),
  whole as (
    select s.subject, s.holder, s.per, s.account, b.admitted_minute, b.terms, b.end_position as position,
        null::integer as recorded_minute, b.body, ${forEachMeter((meter) => `b.settled_${meter} as ${meter}`)}
      from begun b cross join lateral ${subjectsOf('b')} s where b.end_position is not null
    union all
    select ${WHOLE.names} from unnest(${WHOLE.place(LIFE.count + 1)}) as w (${WHOLE.names})
  ),
  running as (select * from begun where end_position is null),
  charge as materialized (
    select c.request, c.position, c.subject, t.meter, t.window_kind,
        daybook.window_start(t.window_kind, c.admitted_minute) as window_start,
        t.reset_position, c.holder, c.per, c.account, 0 as before, ${unitsOf('t.meter', 'c')} as held,
        true as is_new
      from (select s.subject, s.holder, s.per, s.account, r.request, r.position, r.admitted_minute, r.terms,
          r.body, ${forEachMeter((meter) => `r.${meter}`)}
        from running r cross join lateral ${subjectsOf('r')} s) c
      join terms t on ${CHARGED('c')}
    union all
    select request, position, ${WINDOW}, ${OWNER}, held, held, false
      from open_hold where request = any (array(select request from life where type <> ${ACCEPTED}))
  ),
  ending as (select distinct on (request) * from life where type in (${ENDED}) order by request, position),
  grown as (
    select distinct on (c.position, c.subject, c.meter, c.window_kind)
        c.position, c.subject, c.meter, c.window_kind, x.position as grown_position,
        ${unitsOf('c.meter', 'x')} as held
      from charge c join life x on x.request = c.request and x.type = ${EXTENDED} and x.position > c.position
        and daybook.window_start(c.window_kind, ${MINUTE('x.at')}) <= c.window_start
      order by c.position, c.subject, c.meter, c.window_kind, x.position desc
  ),
  changed as materialized (
    select c.*, coalesce(g.held, c.held) as after, e.position as end_position, g.grown_position,
        ${unitsOf('c.meter', 'e')} as spent
      from charge c
      left join ending e on e.request = c.request and not c.is_new
      left join grown g on g.position = c.position and g.subject = c.subject
        and g.meter = c.meter and g.window_kind = c.window_kind
      where c.is_new or e.position is not null or g.position is not null
  ),
  closed as (
    delete from open_hold
      where request = any (array(select request from changed where end_position is not null))
  ),
  opened as (
    insert into open_hold (request, position, ${WINDOW}, ${OWNER}, held)
      select request, position, ${WINDOW}, ${OWNER}, after from changed where end_position is null
      on conflict (request, position, subject, meter, window_kind) do update set held = excluded.held
  ),
  delta as (
    select ${WINDOW}, ${OWNER}, sum(used)::bigint as used, sum(held)::bigint as held,
        max(position) as position
      from (
        select w.subject, t.meter, t.window_kind,
            daybook.window_start(t.window_kind, w.admitted_minute) as window_start, t.reset_position,
            w.holder, w.per, w.account, ${unitsOf('t.meter', 'w')} as used, 0 as held, w.position
          from whole w join terms t on ${CHARGED('w')}
            and (w.recorded_minute is null or daybook.window_start(t.window_kind, w.recorded_minute)
                <= daybook.window_start(t.window_kind, w.admitted_minute))
        union all
        select ${WINDOW}, ${OWNER}, case when end_position is null then 0 else spent end,
            case when end_position is null then after else 0 end - before,
            coalesce(end_position, grown_position, position)
          from changed
      ) d
      group by ${WINDOW}, ${OWNER}
  ),
  charged as (${NEWEST('delta', 'terms')}),
  added as (
    insert into quota_window as w (${WINDOW}, ${OWNER}, used, held, position, cap, enforcement)
      select ${WINDOW}, ${OWNER}, used, held, greatest(position, newest_position), newest_cap,
          newest_enforcement
        from charged
      on conflict (${WINDOW}) do update set used = w.used + excluded.used, held = w.held + excluded.held,
        position = greatest(w.position, excluded.position)
  )
  select from unnest($${LIFE.count + WHOLE.count + 2}::uuid[]) as sum(request)
    join open_hold on open_hold.request = sum.request limit 1`;

/**
 * Updates the caps of the windows of accounts and keys whose quotas have changed. Ended windows keep theirs.
 */
const RECAP = `with windows as (
    select * from quota_window where subject = any($1)
    union all
    select * from quota_window where holder = any($1) and per <> 0
  ),
  terms as (select * from quota_terms where subject = any($1)),
  newest as (${NEWEST('windows', 'terms')})
  insert into quota_window as w (${WINDOW}, ${OWNER}, cap, enforcement, position)
    select ${WINDOW}, ${OWNER}, newest_cap, newest_enforcement, newest_position from newest
      where (cap, enforcement) is distinct from (newest_cap, newest_enforcement) or newest_position > position
    on conflict (${WINDOW}) do update set cap = excluded.cap, enforcement = excluded.enforcement,
      position = greatest(w.position, excluded.position)`;

/**
 * Adds adjustments to the used units of their windows. One of a quota that there never was before adds
 * nothing, also where the same page has terms of that quota after it.
 */
const ADJUST = `with delta as (
    select ${WINDOW}, ${OWNER}, sum(amount)::bigint as used, max(position) as position
      from unnest($1::text[], $2::smallint[], $3::smallint[], $4::integer[], $5::bigint[], $6::text[],
        $7::smallint[], $8::text[], $9::bigint[], $10::bigint[]) as a(${WINDOW}, ${OWNER}, amount, position)
      where exists (select from quota_terms t where t.subject = a.holder and t.per = a.per
        and t.meter = a.meter and t.window_kind = a.window_kind and t.reset_position = a.reset_position
        and t.position < a.position)
      group by ${WINDOW}, ${OWNER}
  ),
  terms as (select * from quota_terms where subject = any($6)),
  charged as (${NEWEST('delta', 'terms')})
  insert into quota_window as w (${WINDOW}, ${OWNER}, used, held, position, cap, enforcement)
    select ${WINDOW}, ${OWNER}, used, 0, greatest(position, newest_position), newest_cap, newest_enforcement
      from charged
    on conflict (${WINDOW}) do update set used = w.used + excluded.used,
      position = greatest(w.position, excluded.position)`;

/** The kinds of subjects that the terms of accounts and keys have or had quotas of. */
const LIMITED = `select distinct subject, per from quota_terms where subject = any ($1::text[])`;
type LimitedRow = Pick<Selectable<QuotaTermsTable>, 'subject' | 'per'>;

async function readLimited(client: ClientBase, events: readonly PageEvent[]): Promise<Limited> {
  const holders = holdersIn(events);
  if (holders.size === 0) return new Map();
  const { rows } = await client.query<LimitedRow>({
    name: 'project_quotas_limited',
    text: LIMITED,
    values: [[...holders]],
  });
  const kinds = Map.groupBy(rows, ({ subject }) => subject);
  return new Map([...kinds].map(([subject, own]) => [subject, new Set(own.map(({ per }) => per))]));
}

async function charge(client: ClientBase, events: readonly PageEvent[]): Promise<void> {
  const limited = await readLimited(client, events);
  if (limited.size === 0) return;
  const { life, whole, wholeRequests } = chargesOf(events, limited);
  const cell = (at: number) => life.map(({ event }) => event.cells[at] ?? null);
  const { rowCount } = await client.query({
    name: 'project_quotas',
    text: CHARGES,
    values: [
      life.map(({ event }) => event.position),
      life.map(({ event }) => event.type),
      life.map(({ event }) => event.at),
      cell(AT.request),
      cell(AT.account),
      cell(AT.parents),
      cell(AT.key),
      cell(AT.end_user),
      cell(AT.session),
      cell(AT.tags),
      cell(AT.admitted_minute),
      life.map(({ event }) => event.cells[AT.terms_position] ?? '0'),
      life.map(({ event }) => unchargedOf(event.cells)),
      ...QUOTA_METERS.map((_, index) => life.map(({ units }) => units[index])),
      whole.map(({ subject }) => subject),
      whole.map(({ holder }) => holder),
      whole.map(({ per }) => per),
      whole.map(({ account }) => account),
      whole.map(({ admittedMinute }) => admittedMinute),
      whole.map(({ terms }) => terms),
      whole.map(({ position }) => position),
      whole.map(({ recordedMinute }) => recordedMinute),
      whole.map(({ uncharged }) => uncharged),
      ...QUOTA_METERS.map((_, index) => whole.map(({ units }) => units[index])),
      [...limited.keys()],
      wholeRequests,
    ],
  });
  // No append writes that. In parts of the page, each event is charged by itself.
  if (rowCount !== 0) throw new RequestOrderError('a call was accepted in an earlier page, too');
}

async function adjust(client: ClientBase, events: readonly Placed<ControlEvent>[]): Promise<void> {
  const rows = events.flatMap(({ event, position }) =>
    event.type === 'quota.adjusted' ? [{ ...event, position }] : [],
  );
  if (rows.length === 0) return;
  const subjects = rows.map((event) => holderOf(adjustedSubject(event)));
  await client.query({
    name: 'project_quotas_adjust',
    text: ADJUST,
    values: [
      rows.map(adjustedSubject),
      rows.map(({ meter }) => METERS[meter].code),
      rows.map(({ window }) => WINDOW_KINDS[window]),
      rows.map(({ window_start }) => window_start),
      rows.map(({ reset_position }) => reset_position),
      subjects.map(({ holder }) => holder),
      subjects.map(({ per }) => perCode(per)),
      rows.map(({ account, parent }) => parent ?? account),
      rows.map(({ amount }) => amount),
      rows.map(({ position }) => position),
    ],
  });
}

/** The usage of each quota by window, from the log. Admission has its own figures. */
export const quotas: Projection = {
  name: 'quotas',
  tables: ['quota_window', 'quota_terms', 'quota_source', 'open_hold'],
  kept: [{ table: 'quota_window', time: 'begins_at' }],
  async apply(client: ClientBase, { events, control }: EventPage): Promise<void> {
    const holders = control.length === 0 ? [] : await changeTerms(client, control);
    await charge(client, events);
    await adjust(client, control);
    if (holders.length > 0)
      await client.query({ name: 'project_quotas_recap', text: RECAP, values: [holders] });
  },
};
