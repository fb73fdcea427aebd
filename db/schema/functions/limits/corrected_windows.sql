-- The windows that corrections of requests change, and by how many units: those that their requests were
-- charged to and that are not over, so a lifetime or a prepaid balance always. `_lines` are as in
-- daybook.append, of the type usage.adjusted.
create or replace function daybook.corrected_windows(_lines text[]) returns table (id bigint, units bigint)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  _minute constant integer := floor(extract(epoch from clock_timestamp()) / 60)::integer;
begin
  return query
  -- A request is charged to the newest reset of a window that its terms knew, and to no limit that is newer.
  with line as materialized (
    select e.line::daybook.event_fields as f from unnest(_lines) as e(line)
  ), charged as (
    select s.subject, (l.f).admitted_minute, coalesce((l.f).terms_position, 0) as terms,
        -- A body is different for each reason; most name no limits.
        case when (l.f).body like '%"observed":%' then (l.f).body end as body,
        m.meter, sum(daybook.charged_units(m.meter, l.f))::bigint as units
      from line l cross join unnest('{2,3}'::smallint[]) as m(meter)
        cross join lateral daybook.subjects_of((l.f).account, (l.f).parents, (l.f).key, (l.f).end_user,
          (l.f).session, (l.f).tags) s
      where (l.f).admitted_minute is not null and daybook.charged_units(m.meter, l.f) <> 0
      group by 1, 2, 3, 4, 5
  )
  select a.id, sum(c.units)::bigint
    from charged c join daybook.allowance a on a.subject = c.subject and a.meter = c.meter
      and a.window_start = daybook.window_start(a.window_kind, c.admitted_minute)
      and a.window_start >= daybook.window_start(a.window_kind, _minute)
      and a.reset_position <= c.terms and a.since_terms <= c.terms
      and not daybook.is_uncharged(c.body, a.subject, a.meter, a.window_kind)
    where not exists (select from daybook.allowance n
      where n.subject = a.subject and n.meter = a.meter and n.window_kind = a.window_kind
        and n.window_start = a.window_start and n.reset_position > a.reset_position
        and n.reset_position <= c.terms)
    group by a.id;
end
$$;
