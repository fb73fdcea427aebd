-- Declares an instance dead. Lock order, as everywhere: the instance's row, allowances, the log. (The update
-- locks the row even if it finds that a concurrent call was first.) An append that got the log's lock before
-- this function is in the log when this commits; an append that gets it later checks after that commit, since
-- the lock is held until then, and finds the instance dead.
create or replace function daybook.fence_instance(_dead integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update daybook.instance set dead_at = clock_timestamp() where id = _dead and dead_at is null;
  lock table daybook_lock.log in share update exclusive mode;
end
$$;
