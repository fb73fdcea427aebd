-- Ends sessions of outside logins that keep Daybook's own sessions waiting, or keep a transaction open for
-- too long. Returns each of them with whether it could be ended: the owner may end the sessions of the logins
-- that it created, and others only with pg_signal_backend.
--
-- A login needs no privilege on a table to make others wait for it: `prepare` locks the tables that its
-- statement names, and `create rule` requests ACCESS EXCLUSIVE before it checks the owner, with everyone else
-- queued behind it. No setting prevents that. Only sessions of this database count: the others in the cluster
-- may be anyone's. Readers may delay changes of tables, which have timeouts of
-- their own and are retried: waiting for a mode of such changes does not count.
create or replace function daybook.end_outside_sessions(
  _wait_ms integer, _idle_ms integer, _transaction_ms integer
) returns table (login text, reason text, is_ended boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _now constant timestamptz := clock_timestamp();
  _database constant oid := (select datid from pg_stat_get_activity(pg_backend_pid()));
  _pid integer;
begin
  -- Each process asks twice a second, nearly always without such a session: this costs a tenth of the rest.
  if not exists (
    select from (
      select distinct usesysid from pg_stat_get_activity(null) where usesysid is not null
    ) s where daybook.is_outside(s.usesysid)
  ) then
    return;
  end if;
  for _pid, login, reason in
    select b.pid, pg_get_userbyid(a.usesysid), 'blocking'
      from pg_lock_status() w cross join lateral unnest(pg_blocking_pids(w.pid)) b(pid)
        cross join lateral pg_stat_get_activity(b.pid) a
      where not w.granted and w.waitstart < _now - make_interval(secs => _wait_ms / 1000.0)
        and (w.locktype <> 'relation'
          or w.mode not in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
        and exists (select from pg_stat_get_activity(w.pid) s
          where s.datid = _database and not daybook.is_outside(s.usesysid))
        and daybook.is_outside(a.usesysid)
    union
    select a.pid, pg_get_userbyid(a.usesysid),
        case when a.state like 'idle in transaction%' then 'idle in a transaction'
          else 'a long transaction' end
      from pg_stat_get_activity(null) a
      where a.datid = _database
        and (a.state like 'idle in transaction%'
            and a.state_change < _now - make_interval(secs => _idle_ms / 1000.0)
          or a.xact_start < _now - make_interval(secs => _transaction_ms / 1000.0))
        and daybook.is_outside(a.usesysid)
  loop
    begin
      is_ended := pg_terminate_backend(_pid);
    exception when insufficient_privilege then
      is_ended := false;
    end;
    return next;
  end loop;
end
$$;
