-- Ends the requests that a dead instance left open, each with its whole last hold charged, and closes the
-- instance's leases. Since the instance is fenced, its requests and leases can't change any more. Lock order,
-- as everywhere: the instance's row, allowances by their identity, the log. Returns how many requests were
-- abandoned; 0 if another recoverer was first.
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
  select count(*), array_agg(o.request), array_agg(o.account), array_agg(o.key), array_agg(o.model),
      array_agg(o.hold_tokens), array_agg(o.hold_cost_microusd), array_agg(o.admitted_minute),
      array_agg(o.terms_position), array_agg(o.position)
    into _count, _request, _account, _key, _model, _hold, _hold_cost, _minute, _terms, _open
    from (
      -- The newest hold of each request: of its acceptance or of its last extension.
      select distinct on (a.request) a.*
        from daybook.log a
        where a.shard = 0 and a.type in (100, 103) and a.instance = _dead and a.position >= _from
          and not exists (select from daybook.log e
            where e.shard = 0 and e.type in (101, 102) and e.request = a.request and e.position > _from)
        order by a.request, a.position desc
    ) o;
  perform daybook.close_leases(_dead, _open);
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
