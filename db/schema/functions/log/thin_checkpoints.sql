-- Deletes checkpoints that are older than 48 hours, except for the last one of each hour, which proves as
-- much, and the last one of each hour with a witness's cosignature. A function, so that the worker's role
-- deletes no other ones.
create or replace function daybook.thin_checkpoints() returns void
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  with old as (
    select shard, epoch, size, date_trunc('hour', published_at, 'UTC') as hour,
      exists (select from daybook.cosignature s
        where s.shard = c.shard and s.epoch = c.epoch and s.size = c.size) as is_cosigned
    from daybook.checkpoint c
    where published_at < date_trunc('hour', statement_timestamp() - interval '48 hours', 'UTC')),
  ranked as (select *, row_number() over (partition by shard, epoch, hour order by size desc) as nth,
      row_number() over (partition by shard, epoch, hour, is_cosigned order by size desc) as nth_alike
    from old)
  delete from daybook.checkpoint c using ranked r
    where c.shard = r.shard and c.epoch = r.epoch and c.size = r.size
      and nth > 1 and not (is_cosigned and nth_alike = 1);
end;
