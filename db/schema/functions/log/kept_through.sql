-- Control events up to this position are read from daybook.log_kept, and later ones from the log. It advances
-- in one transaction with the events, long before they leave the log: no reader misses or repeats any.
create or replace function daybook.kept_through(_shard smallint) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select coalesce((select position from daybook.log_kept where shard = _shard
    order by position desc limit 1), 0);
end;
