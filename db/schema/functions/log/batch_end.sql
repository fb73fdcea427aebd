-- The last position of the batch that holds a position; the largest bigint behind the head.
create or replace function daybook.batch_end(_position bigint) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select coalesce((select last_position from daybook.log_batch
    where shard = 0 and last_position >= _position order by last_position limit 1), 9223372036854775807);
end;
