-- Declares an instance dead and queues a job for a worker to recover it. The queue is graphile-worker's own
-- schema, which the first worker creates; until then, and while no worker lives, no job is queued and the
-- caller gets false. One job per dead instance: requesting again replaces a waiting job, and adds one to a
-- job that died with its worker.
create or replace function daybook.request_recovery(_dead integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _is_queued constant boolean := to_regclass('graphile_worker.jobs') is not null
    and exists (select from daybook.instance where closed_at is null and dead_at is null and id <> _dead
      and name like 'worker %' and heartbeat_at > statement_timestamp() - interval '5 seconds');
begin
  if _is_queued then
    perform graphile_worker.add_job('recover_instance', json_build_object('instance', _dead),
      job_key => 'recover-' || _dead, max_attempts => 5);
  end if;
  -- Last, because it waits for the log's lock and holds that until the commit.
  perform daybook.fence_instance(_dead);
  return _is_queued;
end
$$;
