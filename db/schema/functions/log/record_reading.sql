-- Records that the log was read: who, which kind of reading, which positions. Processes of Daybook append the
-- event at once and name the actor, such as a member; returns its position. For any other login the actor is
-- the login itself, and a worker appends the event: see daybook.append_readings. Returns null then.
--
-- A role that may only read calls this, so the event has to be valid whatever the arguments are: an
-- undecodable event would stop every follower of the log. The kinds of readings are those of
-- db/events/log-events.ts, and a position is an integer that JSON readers represent exactly.
create or replace function daybook.record_reading(_actor text, _what text, _from bigint, _to bigint)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _login constant oid := (session_user::text)::regrole;
begin
  -- "is not true" also rejects nulls.
  if (_actor collate "C" ~ '^[A-Za-z][A-Za-z0-9/._-]{0,99}$'
      and _what in ('events', 'export', 'verify', 'replay', 'diff', 'statement', 'trace', 'backup')
      and _from between 0 and 9007199254740991 and _to between 0 and 9007199254740991) is not true then
    raise exception 'invalid arguments for a reading of the log' using errcode = 'invalid_parameter_value';
  end if;
  if daybook.is_outside(_login) then
    insert into daybook.reading as r (login, what, from_position, to_position)
      values (session_user, _what, _from, _to)
      on conflict (login, what) do update
        set from_position = least(r.from_position, excluded.from_position),
          to_position = greatest(r.to_position, excluded.to_position);
    return null;
  end if;
  return daybook.append_reading(_actor, _what, _from, _to);
end
$$;
