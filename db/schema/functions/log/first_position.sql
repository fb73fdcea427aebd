-- From this position to the head the log is complete; earlier positions have left it, at least in part.
create or replace function daybook.first_position() returns bigint
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select greatest(1, coalesce(max(end_position), 1)) from daybook.log_partition
    where not daybook.is_attached(name);
end;
