-- Renews an instance. Returns Postgres time, which is the clock that decides expiry; null if the instance was
-- declared dead. `_open_from`: the position from which the instance may have open requests. Workers are
-- instances that never have requests: their null means "only from the head on", so recovery has nothing to
-- search.
--
-- `_request`: running calls, with what each is charged if no heartbeat follows; null for no calls. What
-- an earlier heartbeat reported of calls that have ended since is harmless.
create or replace function daybook.heartbeat(_instance integer, _open_from bigint,
  _request uuid[] default null, _tokens bigint[] default null, _cost_nanousd bigint[] default null)
returns timestamptz
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  with live as (
    update daybook.instance
      set heartbeat_at = clock_timestamp(),
        open_from = greatest(open_from, coalesce(_open_from, daybook.head(0::smallint) + 1))
      where id = _instance and dead_at is null
      returning id
  ), reported as (
    insert into daybook.call_progress as p (instance, request, tokens, cost_nanousd)
      select id, _request, _tokens, _cost_nanousd from live where _request is not null
      on conflict (instance) do update set request = excluded.request, tokens = excluded.tokens,
        cost_nanousd = excluded.cost_nanousd
  )
  select clock_timestamp() from live;
end;
