-- Workers are instances like servers, but never have requests of their own. A null says so: what
-- is still to come is all that anybody would have to search for such an instance.
create or replace function daybook.heartbeat(_instance integer, _open_from bigint) returns timestamptz
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.instance
    set heartbeat_at = clock_timestamp(),
      open_from = greatest(open_from, coalesce(_open_from, daybook.head(0::smallint) + 1))
    where id = _instance and dead_at is null
    returning clock_timestamp();
end;

-- Declares an instance dead and asks a worker to end what it left open. The queue is graphile's own
-- schema, which the first worker makes; until then, and while no worker lives, nobody is asked and
-- the caller is told so. One job per dead instance: asking again replaces a job that waits, and
-- adds one to a job that a worker took with it into death.
create function daybook.request_recovery(_dead integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _is_asked constant boolean := to_regclass('graphile_worker.jobs') is not null
    and exists (select from daybook.instance where closed_at is null and dead_at is null and id <> _dead
      and name like 'worker %' and heartbeat_at > clock_timestamp() - interval '5 seconds');
begin
  if _is_asked then
    perform graphile_worker.add_job('recover_instance', json_build_object('instance', _dead),
      job_key => 'recover-' || _dead, max_attempts => 5);
  end if;
  -- Last, because it waits for the log's lock and holds it until the commit.
  perform daybook.fence_instance(_dead);
  return _is_asked;
end
$$;
revoke all on function daybook.request_recovery(integer) from public;
grant execute on function daybook.request_recovery(integer) to daybook_relay, daybook_worker;
