-- The last position of a shard's log; 0 if it is empty.
create or replace function daybook.head(_shard smallint) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select coalesce((select last_position from daybook.log_batch where shard = _shard
    order by last_position desc limit 1), 0);
end;
