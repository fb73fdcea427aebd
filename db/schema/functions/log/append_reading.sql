-- Appends the event of a reading, see daybook.record_reading. Returns its position.
create or replace function daybook.append_reading(_actor text, _what text, _from bigint, _to bigint)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _instance integer;
  _version integer;
  _position bigint;
begin
  -- In a statement of its own, before any read of the data that the lock protects.
  lock table daybook_lock.log in share update exclusive mode;
  select coalesce(max(version), 0) + 1 into _version from daybook.stream_head where stream = 'log/readings';
  select daybook.register_instance('reading') into _instance;
  -- 82 is log.read, one of the codes of db/events/events.ts.
  _position := daybook.append_control(0::smallint, _instance, 1, array[
    jsonb_populate_record(null::daybook.event_fields, jsonb_build_object(
      'type', 82, 'stream', 'log/readings', 'version', _version,
      'body', format('{"actor":"%s","what":"%s","from_position":%s,"to_position":%s}',
        _actor, _what, _from, _to)))::text], array[null::text]);
  perform daybook.retire_instance(_instance);
  return _position;
end
$$;
