-- Reports the diagnostic output of an instance's process: how many lines it has dropped, and the code of the
-- error that it fails with, null while it works.
create or replace function daybook.report_output(_instance integer, _dropped bigint, _failure text)
returns void
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.instance set dropped_lines = _dropped, output_failure = left(_failure, 32)
    where id = _instance and dead_at is null;
end;
