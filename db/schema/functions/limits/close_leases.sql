-- Closes the leases of an instance that can't spend any more, from the log: units settled since its last
-- report and the charge of each open request stay used; the rest is returned. Leases with no units
-- left to spend, or of a window that has ended, stay as reported: the log is read from the oldest report of
-- the others. `_open` are the positions of the newest reservations of open requests, null for no open
-- requests; `_tokens` and `_cost_nanousd` are what each is charged.
--
-- There may be a lease for each of a hundred thousand end users, and as many charges. Of the size of the
-- lists that are made here the planner knows nothing, so it must not join them in nested loops.
create or replace function daybook.close_leases(_instance integer, _open bigint[],
  _tokens bigint[] default null, _cost_nanousd bigint[] default null) returns void
language plpgsql set search_path = pg_catalog, pg_temp set enable_nestloop = off as $$
declare
  -- A minute less, since the clocks of admitting instances differ from this one.
  _now constant integer := floor(extract(epoch from clock_timestamp()) / 60)::integer - 1;
  _scan bigint;
begin
  perform 1 from daybook.allowance a join daybook.lease l on l.allowance = a.id
    where l.instance = _instance and not l.closed
    order by a.subject, a.meter, a.window_kind, a.window_start, a.reset_position
    for update of a;
  if not found then
    return;
  end if;
  select min(l.position) + 1 into _scan from daybook.lease l join daybook.allowance a on a.id = l.allowance
    where l.instance = _instance and not l.closed and l.granted - l.returned > l.used
      and a.window_start >= daybook.window_start(a.window_kind, _now);

  with appended as materialized (
    -- Without leases to settle and without open requests nothing is read.
    select e.position, e.fields from daybook.events_of(_instance,
        coalesce(least(_scan, (select min(o.position) from unnest(_open) as o(position))),
          9223372036854775807)) e
      where (e.fields).admitted_minute is not null
  ), charge as (
    select position, fields, false as is_open from appended
      where ((fields).type = 101 or daybook.is_handed_over((fields).type, (fields).body))
        and position >= _scan
    union all
    select a.position, jsonb_populate_record(a.fields,
          jsonb_build_object('hold_tokens', o.tokens, 'hold_cost_nanousd', o.cost_nanousd)), true
      from appended a join unnest(_open, _tokens, _cost_nanousd) as o(position, tokens, cost_nanousd)
        using (position)
  ), charge_subject as materialized (
    select c.fields, c.is_open, c.position, s.subject
      from charge c cross join lateral daybook.subjects_of((c.fields).account, (c.fields).parents,
        (c.fields).key, (c.fields).end_user, (c.fields).session, (c.fields).tags) s
  ), open_lease as materialized (
    select l.*, a.subject, a.meter, a.window_kind, a.window_start, a.reset_position,
        (select min(n.reset_position) from daybook.allowance n
          where n.subject = a.subject and n.meter = a.meter and n.window_kind = a.window_kind
            and n.window_start = a.window_start and n.reset_position > a.reset_position
        ) as next_reset_position,
        l.granted - l.returned > l.used
          and a.window_start >= daybook.window_start(a.window_kind, _now) as is_live
      from daybook.lease l join daybook.allowance a on a.id = l.allowance
      where l.instance = _instance and not l.closed
  ), spent as (
    select l.allowance, sum(daybook.charged_units(l.meter, c.fields))::bigint as units
      from open_lease l join charge_subject c
        on l.subject = c.subject
        and (c.is_open or c.position > l.position)
        and l.window_start = daybook.window_start(l.window_kind, (c.fields).admitted_minute)
        and coalesce((c.fields).terms_position, 0) >= l.since_terms
      where l.is_live
        -- Of windows that were reset a request belongs to the newest one that its terms knew.
        and l.reset_position <= coalesce((c.fields).terms_position, 0)
        and (l.next_reset_position is null or l.next_reset_position > coalesce((c.fields).terms_position, 0))
        and not daybook.is_uncharged((c.fields).body, l.subject, l.meter, l.window_kind)
      group by l.allowance
  ), closing as (
    select l.allowance, l.used as used_before, l.returned as returned_before, l.held as held_before,
        least(l.used + coalesce(s.units, 0), l.granted - l.returned) as used,
        greatest(0, l.used + coalesce(s.units, 0) - (l.granted - l.returned)) as overdrawn
      from open_lease l left join spent s using (allowance)
  ), closed as (
    update daybook.lease l set used = c.used, overdrawn = l.overdrawn + c.overdrawn,
        returned = l.granted - c.used, held = 0, closed = true
      from closing c
      where l.allowance = c.allowance and l.instance = _instance
      returning l.allowance, c.used - c.used_before as used, c.overdrawn,
        l.returned - c.returned_before as returned, c.held_before as held
  )
  update daybook.allowance a set used = a.used + c.used, overdrawn = a.overdrawn + c.overdrawn,
      returned = a.returned + c.returned, held = a.held - c.held, sharers = a.sharers - 1,
      ceiling = greatest(a.cap - a.adjusted, a.granted - a.returned - c.returned)
    from closed c where a.id = c.allowance;
end
$$;
