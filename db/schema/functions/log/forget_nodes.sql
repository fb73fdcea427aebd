-- Deletes the tree nodes over any position from this one on, except those that could not be recomputed
-- because events below them have left the database. Returns how many. Nodes are recomputed after a restore
-- has dropped the end of the log, since some of them cover events that no longer exist; they are never
-- updated.
create or replace function daybook.forget_nodes(_shard smallint, _from bigint) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  with gone as (
    delete from daybook.log_node
      where shard = _shard and (number + 1) * (256 ^ level)::bigint >= _from
        and (level > 1 or number * 256 >= daybook.first_position() - 1)
      returning 1)
  select count(*) from gone;
end;
