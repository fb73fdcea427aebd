-- Ends the requests that a dead instance left open, and closes the instance's leases. Since the instance is
-- fenced, its requests and leases can't change any more. Returns how many requests were abandoned; 0 if
-- another recoverer was first.
--
-- A request of the last heartbeat's report (daybook.call_progress) is charged what the report says: its
-- usage by then and a heartbeat's worth. Any other is charged its whole reservation: under a hard limit that
-- alone bounds the usage, since an instance that was only cut off from the database goes on relaying.
create or replace function daybook.recover_instance(_dead integer, _by integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _from bigint;
  _count integer;
  _request uuid[]; _account text[]; _key text[]; _model text[]; _hold bigint[]; _hold_cost bigint[];
  _minute integer[]; _terms bigint[]; _open bigint[];
begin
  -- One recoverer at a time for each dead instance, and the row before the log: a concurrent fence_instance
  -- holds the row while it waits for the log.
  select open_from into _from from daybook.instance
    where id = _dead and dead_at is not null and closed_at is null
    for no key update;
  if not found then
    return 0;
  end if;
  with reservation as (
    -- The newest hold of each request: of its acceptance or of its last extension.
    select distinct on (a.request) a.request, a.account, a.key, a.model, a.hold_tokens, a.hold_cost_microusd,
        a.admitted_minute, a.terms_position, a.position
      from daybook.log a
      where a.shard = 0 and a.type in (100, 103) and a.instance = _dead and a.position >= _from
        and not exists (select from daybook.log e
          where e.shard = 0 and e.type in (101, 102) and e.request = a.request and e.position > _from)
      order by a.request, a.position desc
  ), progress as (
    select r.* from daybook.call_progress p,
        unnest(p.request, p.tokens, p.cost_microusd) as r(request, tokens, cost_microusd)
      where p.instance = _dead
  ), charge as (
    -- Of nulls "least" takes the other value.
    select r.*, least(r.hold_tokens, p.tokens) as tokens,
        case when r.hold_cost_microusd is not null
          then least(r.hold_cost_microusd, p.cost_microusd) end as cost_microusd
      from reservation r left join progress p using (request)
  )
  select count(*), array_agg(c.request), array_agg(c.account), array_agg(c.key), array_agg(c.model),
      array_agg(c.tokens), array_agg(c.cost_microusd), array_agg(c.admitted_minute),
      array_agg(c.terms_position), array_agg(c.position)
    into _count, _request, _account, _key, _model, _hold, _hold_cost, _minute, _terms, _open
    from charge c;
  perform daybook.close_leases(_dead, _open, _hold, _hold_cost);
  delete from daybook.call_progress where instance = _dead;
  if _count > 0 then
    -- A recoverer numbers these batches by the dead instance, below zero, so that they differ from its own.
    -- The codes are those of db/events/events.ts: 102 request.abandoned, 9 abandoned, 3 estimated.
    perform daybook.append(_shard => 0::smallint, _instance => _by, _batch_no => -_dead::bigint,
      _type => array_fill(102::smallint, array[_count]), _request => _request, _account => _account,
      _key => _key, _model => _model, _hold_tokens => _hold, _hold_cost_microusd => _hold_cost,
      _admitted_minute => _minute, _terms_position => _terms,
      _end_reason => array_fill(9::smallint, array[_count]),
      _usage_source => array_fill(3::smallint, array[_count]));
  end if;
  update daybook.instance set closed_at = clock_timestamp() where id = _dead;
  return _count;
end
$$;
