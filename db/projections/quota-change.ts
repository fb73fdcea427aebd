import type { Selectable } from 'kysely';
import type { ClientBase } from 'pg';
import { isTermsEvent } from '#db/events/subjects.ts';
import type { ControlEvent, Placed } from '#db/events/events.ts';
import {
  type Enforcement,
  ENFORCEMENT_OF,
  ENFORCEMENTS,
  WINDOW_KIND_OF,
  WINDOW_KINDS,
  type WindowKind,
} from '#db/limits/limits.ts';
import { type Meter, METER_OF, METERS } from '#db/limits/meters.ts';
import { holderName, perCode, perOf } from '#db/limits/subjects.ts';
import { type QuotaSource, QuotaTerms } from '#db/projections/quota-terms.ts';
import type { QuotaSourceTable, QuotaTermsTable } from '#db/schema/tables.ts';

// A change of a plan concerns the accounts on it. Later changes of an account's plan are known from
// its own events, which name the plan.
const SOURCES = `select s.subject, s.account, s.plan, s.quotas, s.prepaid, s.topped_up_nanousd,
      s.reset_position
    from quota_source s
    where s.subject = any($1) or (s.account is not null and s.plan = any($2))
  union
  select p.subject, p.account, p.plan, p.quotas, p.prepaid, p.topped_up_nanousd, p.reset_position
    from quota_source p
    where p.subject = any (array(select 'plan/' || a.plan from quota_source a
      where a.subject = any($1) and a.plan is not null))`;
const IN_FORCE = `select subject, meter, window_kind, per, cap, enforcement, reset_position, position,
    from_minute
  from quota_terms where subject = any($1) and until_position is null`;
const WRITE_SOURCES = `insert into quota_source (subject, account, plan, quotas, reset_position, prepaid,
      topped_up_nanousd)
    select * from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::bigint[], $6::boolean[],
      $7::bigint[])
  on conflict (subject) do update set plan = excluded.plan, quotas = excluded.quotas,
    prepaid = excluded.prepaid, topped_up_nanousd = excluded.topped_up_nanousd,
    reset_position = excluded.reset_position`;
const WRITE_TERMS = `insert into quota_terms (subject, meter, window_kind, cap, enforcement, reset_position,
      position, until_position, from_minute, per)
    select * from unnest($1::text[], $2::smallint[], $3::smallint[], $4::bigint[], $5::smallint[],
      $6::bigint[], $7::bigint[], $8::bigint[], $9::integer[], $10::smallint[])
  on conflict (subject, per, meter, window_kind, position)
    do update set until_position = excluded.until_position`;

type TermsRow = Omit<Selectable<QuotaTermsTable>, 'until_position'>;

/**
 * Applies the control events of a range to `quota_source` and `quota_terms`.
 * @returns the accounts and keys with a changed quota, by the names of holders.
 */
export async function changeTerms(
  client: ClientBase,
  events: readonly Placed<ControlEvent>[],
): Promise<string[]> {
  const terms = new QuotaTerms();
  const subjects = new Set<string>();
  const plans = new Set<string>();
  for (const { event } of events) {
    if (!isTermsEvent(event)) continue;
    if ('key' in event) subjects.add(holderName('key', event.key));
    else if ('account' in event) subjects.add(holderName('account', event.account));
    if ('plan' in event && event.plan !== null) subjects.add(`plan/${event.plan}`);
    if ('plan' in event && !('account' in event)) plans.add(event.plan);
  }
  if (subjects.size === 0) return [];
  const sources = await client.query<Selectable<QuotaSourceTable>>({
    name: 'quota_sources',
    text: SOURCES,
    values: [[...subjects], [...plans]],
  });
  for (const row of sources.rows) {
    const { subject, account, plan, quotas, prepaid, topped_up_nanousd, reset_position: reset } = row;
    terms.restoreSource({
      subject,
      account,
      plan,
      quotas: quotas as QuotaSource['quotas'],
      prepaid,
      toppedUp: Number(topped_up_nanousd),
      reset: Number(reset),
    });
    subjects.add(subject);
  }
  const { rows } = await client.query<TermsRow>({
    name: 'quota_terms_in_force',
    text: IN_FORCE,
    values: [[...subjects]],
  });
  for (const row of rows) {
    const { subject, meter, window_kind, per, cap, enforcement, reset_position, position, from_minute } = row;
    terms.restoreInterval({
      subject,
      limit: {
        meter: METER_OF.get(meter) as Meter,
        window: WINDOW_KIND_OF.get(window_kind) as WindowKind,
        cap: Number(cap),
        enforcement: ENFORCEMENT_OF.get(enforcement) as Enforcement,
        reset: Number(reset_position),
        per: perOf(per),
      },
      position: Number(position),
      until: null,
      fromMinute: from_minute,
    });
  }
  for (const event of events) terms.apply(event);
  await write(client, terms);
  return [...new Set(terms.intervals.map(({ subject }) => subject))];
}

async function write(client: ClientBase, terms: QuotaTerms): Promise<void> {
  const { sources, intervals } = terms;
  await client.query({
    name: 'write_quota_sources',
    text: WRITE_SOURCES,
    values: [
      sources.map(({ subject }) => subject),
      sources.map(({ account }) => account),
      sources.map(({ plan }) => plan),
      sources.map(({ quotas }) => (quotas === null ? null : JSON.stringify(quotas))),
      sources.map(({ reset }) => reset),
      sources.map(({ prepaid }) => prepaid),
      sources.map(({ toppedUp }) => toppedUp),
    ],
  });
  if (intervals.length === 0) return;
  await client.query({
    name: 'write_quota_terms',
    text: WRITE_TERMS,
    values: [
      intervals.map(({ subject }) => subject),
      intervals.map(({ limit }) => METERS[limit.meter].code),
      intervals.map(({ limit }) => WINDOW_KINDS[limit.window]),
      intervals.map(({ limit }) => limit.cap),
      intervals.map(({ limit }) => ENFORCEMENTS[limit.enforcement]),
      intervals.map(({ limit }) => limit.reset),
      intervals.map(({ position }) => position),
      intervals.map(({ until }) => until),
      intervals.map(({ fromMinute }) => fromMinute),
      intervals.map(({ limit }) => perCode(limit.per)),
    ],
  });
}
