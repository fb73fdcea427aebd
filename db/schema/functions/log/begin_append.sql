-- Takes the log's lock for an append of an instance. Returns the last position of the batch if it was written
-- before, otherwise null.
-- Raises DB001 if the instance is not live.
create or replace function daybook.begin_append(_instance integer, _batch_no bigint, _lines text[])
returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _written bigint;
begin
  -- The lock has a statement of its own: a read in the same statement would use a snapshot taken
  -- before the lock was granted.
  lock table daybook_lock.log in share update exclusive mode;
  select last_position into _written from daybook.log_batch
    where instance = _instance and batch_no = _batch_no order by last_position desc limit 1;
  if found then
    return _written;
  end if;
  perform 1 from daybook.instance where id = _instance and dead_at is null;
  if not found then
    raise exception 'instance % is not live and may not append', _instance using errcode = 'DB001';
  end if;
  if cardinality(_lines) = 0 then
    raise exception 'a batch holds at least one event' using errcode = 'invalid_parameter_value';
  end if;
  return null;
end
$$;
