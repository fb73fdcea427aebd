-- Closes the leases of an instance that can't spend any more, from the log: what it has settled
-- since its last report, and the whole of each open hold, stay spent; the rest goes back. Leases of
-- which nothing was left to spend, or whose window is over, are as they were reported: the log is
-- read from the oldest report of the others. The arrays are the open requests, null for none.
create function daybook.close_leases(
  _instance integer,
  _account text[], _key text[], _minute integer[], _terms bigint[], _tokens bigint[], _cost bigint[]
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  -- A minute less, since the clocks of those who admit are not quite this one.
  _now constant integer := floor(extract(epoch from clock_timestamp()) / 60)::integer - 1;
  _scan bigint;
begin
  perform 1 from daybook.allowance a join daybook.lease l on l.allowance = a.id
    where l.instance = _instance and not l.closed
    order by a.subject, a.meter, a.window_kind, a.window_start, a.reset_position
    for update of a;
  select min(l.position) + 1 into _scan from daybook.lease l join daybook.allowance a on a.id = l.allowance
    where l.instance = _instance and not l.closed and l.granted - l.returned > l.used
      and a.window_start >= daybook.window_start(a.window_kind, _now);

  with charge as (
    select g.position, g.account, g.key, g.admitted_minute, coalesce(g.terms_position, 0) as terms_position,
        g.input_tokens::bigint + g.output_tokens as tokens, coalesce(g.cost_microusd, 0) as cost
      from daybook.log g
      where g.shard = 0 and g.type = 101 and g.instance = _instance and g.position >= _scan and g.admitted_minute is not null
    union all
    select null, o.account, o.key, o.minute, coalesce(o.terms, 0), o.tokens, coalesce(o.cost, 0)
      from unnest(_account, _key, _minute, _terms, _tokens, _cost) as o(account, key, minute, terms, tokens, cost)
      where o.minute is not null
  ), open_lease as (
    select l.*, a.subject, a.meter, a.window_kind, a.window_start, a.reset_position,
        l.granted - l.returned > l.used and a.window_start >= daybook.window_start(a.window_kind, _now) as is_live
      from daybook.lease l join daybook.allowance a on a.id = l.allowance
      where l.instance = _instance and not l.closed
  ), spent as (
    select l.allowance, sum(case l.meter when 1 then 1 when 2 then c.tokens when 3 then c.cost else 0 end)::bigint as units
      from open_lease l join charge c
        on l.subject in ('account/' || c.account, 'key/' || c.key)
        and (c.position is null or c.position > l.position)
        and l.window_start = daybook.window_start(l.window_kind, c.admitted_minute)
        and c.terms_position >= l.since_terms
      where l.is_live
        -- Of windows that were begun anew a request belongs to the newest that its terms knew.
        and l.reset_position = (select max(n.reset_position) from open_lease n
          where n.subject = l.subject and n.meter = l.meter and n.window_kind = l.window_kind
            and n.window_start = l.window_start and n.reset_position <= c.terms_position)
      group by l.allowance
  ), closing as (
    select l.allowance, l.used as used_before, l.returned as returned_before, l.held as held_before,
        least(l.used + coalesce(s.units, 0), l.granted - l.returned) as used,
        greatest(0, l.used + coalesce(s.units, 0) - (l.granted - l.returned)) as overdrawn
      from open_lease l left join spent s using (allowance)
  ), closed as (
    update daybook.lease l set used = c.used, overdrawn = l.overdrawn + c.overdrawn, returned = l.granted - c.used,
        held = 0, closed = true
      from closing c
      where l.allowance = c.allowance and l.instance = _instance
      returning l.allowance, c.used - c.used_before as used, c.overdrawn, l.returned - c.returned_before as returned, c.held_before as held
  )
  update daybook.allowance a set used = a.used + c.used, overdrawn = a.overdrawn + c.overdrawn,
      returned = a.returned + c.returned, held = a.held - c.held, sharers = a.sharers - 1,
      ceiling = greatest(a.cap, a.granted - a.returned - c.returned)
    from closed c where a.id = c.allowance;
end
$$;
revoke all on function daybook.close_leases(integer, text[], text[], integer[], bigint[], bigint[], bigint[]) from public;

-- Ends an instance that has nothing open any more.
create or replace function daybook.retire_instance(_instance integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update daybook.instance set dead_at = clock_timestamp(), closed_at = clock_timestamp()
    where id = _instance and dead_at is null;
  if found then
    perform daybook.close_leases(_instance, null, null, null, null, null, null);
  end if;
end
$$;

-- Ends what a dead instance left open, each request with the whole of its last hold charged, and
-- closes its leases. Since it is fenced nothing of it can change any more. Everybody locks in one
-- order: the instance's row, allowances by their identity, the log. Returns how many requests were
-- abandoned; 0 when somebody else was first.
create or replace function daybook.recover_instance(_dead integer, _by integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _from bigint;
  _count integer;
  _request uuid[]; _account text[]; _key text[]; _model text[]; _hold bigint[]; _hold_cost bigint[];
  _minute integer[]; _terms bigint[];
begin
  -- One recoverer at a time for each dead instance.
  perform pg_advisory_xact_lock(21, _dead);
  select open_from into _from from daybook.instance
    where id = _dead and dead_at is not null and closed_at is null;
  if not found then
    return 0;
  end if;
  select count(*), array_agg(o.request), array_agg(o.account), array_agg(o.key), array_agg(o.model),
      array_agg(o.hold_tokens), array_agg(o.hold_cost_microusd), array_agg(o.admitted_minute), array_agg(o.terms_position)
    into _count, _request, _account, _key, _model, _hold, _hold_cost, _minute, _terms
    from (
      -- The newest of what a request was accepted with and extended to.
      select distinct on (a.request) a.*
        from daybook.log a
        where a.shard = 0 and a.type in (100, 103) and a.instance = _dead and a.position >= _from
          and not exists (select from daybook.log e
            where e.shard = 0 and e.type in (101, 102) and e.request = a.request and e.position > _from)
        order by a.request, a.position desc
    ) o;
  perform daybook.close_leases(_dead, _account, _key, _minute, _terms, _hold, _hold_cost);
  if _count > 0 then
    -- A recoverer numbers these batches by the dead instance, below zero, apart from its own. The
    -- codes are those of db/events/events.ts: 102 request.abandoned, 9 abandoned, 3 estimated.
    perform daybook.append(_shard => 0::smallint, _instance => _by, _batch_no => -_dead::bigint,
      _type => array_fill(102::smallint, array[_count]), _request => _request, _account => _account, _key => _key,
      _model => _model, _hold_tokens => _hold, _hold_cost_microusd => _hold_cost, _admitted_minute => _minute,
      _terms_position => _terms, _end_reason => array_fill(9::smallint, array[_count]),
      _usage_source => array_fill(3::smallint, array[_count]));
  end if;
  update daybook.instance set closed_at = clock_timestamp() where id = _dead;
  return _count;
end
$$;
