-- Ends an instance that has no open requests.
create or replace function daybook.retire_instance(_instance integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update daybook.instance set dead_at = clock_timestamp(), closed_at = clock_timestamp()
    where id = _instance and dead_at is null;
  if found then
    perform daybook.close_leases(_instance, null);
    delete from daybook.call_progress where instance = _instance;
  end if;
end
$$;
