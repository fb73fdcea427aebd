-- Ends the claim of a request whose instance was closed: the log, which gets no more events of that instance,
-- says how. A request that it never accepted never left, so its key is released. One that it settled has
-- ended, and its reply was not kept. One that it accepted and did not settle is lost: an upstream may have
-- had it. Does nothing while the instance may still append.
create or replace function daybook.resolve_idempotency_key(_request uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _claim daybook.idempotency_key;
  _end bigint;
  _accepted boolean;
  _settled boolean;
begin
  select k.* into _claim from daybook.idempotency_key k join daybook.instance i on i.id = k.instance
    where k.request = _request and k.state = 0 and i.closed_at is not null
    for update of k;
  if not found then
    return;
  end if;
  -- Batches that a recovery appended for another instance are numbered below zero.
  select last_position into _end from daybook.log_batch
    where instance = _claim.instance order by batch_no desc limit 1;
  -- The codes are those of db/events/events.ts: 100 request.accepted, 101 request.settled.
  select coalesce(bool_or(e.type = 100), false), coalesce(bool_or(e.type = 101), false)
    into _accepted, _settled
    from (
      select (line::daybook.event_fields).type, (line::daybook.event_fields).request
        from daybook.log l cross join string_to_table(l.events, e'\n') as line
        where l.shard = 0 and l.instance = _claim.instance
          and l.last_position > _claim.position and l.last_position <= _end
          and position(_request::text in l.events) > 0
          and position(_request::text in line) > 0
    ) e
    where e.request = _request;
  if not _accepted then
    delete from daybook.idempotency_key where request = _request;
  else
    update daybook.idempotency_key set state = case when _settled then 1 else 2 end where request = _request;
  end if;
end
$$;
