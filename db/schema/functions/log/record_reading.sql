-- Appends the event that an actor has read the log, on behalf of roles that may write nothing else: who,
-- which kind of reading, which positions. A role that may only read calls this, so the event has to be valid
-- whatever the arguments are: an undecodable event would stop every follower of the log. The kinds of
-- readings are those of db/events/log-events.ts, and a position is an integer that JSON readers represent
-- exactly.
create or replace function daybook.record_reading(_actor text, _what text, _from bigint, _to bigint)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _instance integer;
  _version integer;
  _position bigint;
begin
  -- "is not true" also rejects nulls.
  if (_actor collate "C" ~ '^[A-Za-z][A-Za-z0-9/._-]{0,99}$'
      and _what in ('events', 'export', 'verify', 'replay', 'diff', 'statement', 'trace', 'backup')
      and _from between 0 and 9007199254740991 and _to between 0 and 9007199254740991) is not true then
    raise exception 'invalid arguments for a reading of the log' using errcode = 'invalid_parameter_value';
  end if;
  -- In a statement of its own, before any read of the data that the lock protects.
  perform pg_advisory_xact_lock(19, 0);
  select coalesce(max(version), 0) + 1 into _version from daybook.stream_head where stream = 'log/readings';
  select daybook.register_instance('reading') into _instance;
  -- 82 is log.read, one of the codes of db/events/events.ts.
  _position := daybook.append(0::smallint, _instance, 1, array[82::smallint],
    _stream => array['log/readings'], _version => array[_version],
    _body => array[format('{"actor":"%s","what":"%s","from_position":%s,"to_position":%s}',
      _actor, _what, _from, _to)]);
  perform daybook.retire_instance(_instance);
  return _position;
end
$$;
