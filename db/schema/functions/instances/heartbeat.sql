-- Renews an instance. Returns Postgres time, which is the clock that decides expiry; null if the instance was
-- declared dead. `_open_from`: the position from which the instance may have open requests. Workers are
-- instances that never have requests: their null means "only from the head on", so recovery has nothing to
-- search.
create or replace function daybook.heartbeat(_instance integer, _open_from bigint) returns timestamptz
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.instance
    set heartbeat_at = clock_timestamp(),
      open_from = greatest(open_from, coalesce(_open_from, daybook.head(0::smallint) + 1))
    where id = _instance and dead_at is null
    returning clock_timestamp();
end;
