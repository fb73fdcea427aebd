-- The first minute of the UTC calendar window that contains a minute (since 1970). Its twin is windowStart in
-- db/limits/windows.ts; the kinds are those of db/limits/limits.ts. Without a setting, so that it is inlined:
-- a call costs several microseconds. Its names were resolved when it was created.
create or replace function daybook.window_start(_kind smallint, _minute integer) returns integer
language sql immutable
begin atomic
  select case _kind
    when 0 then 0
    when 1 then _minute
    when 2 then _minute - _minute % 60
    when 3 then _minute - _minute % 1440
    when 4 then _minute - (_minute + 4320) % 10080
    when 5 then (extract(epoch from
      date_trunc('month', to_timestamp(_minute * 60::bigint) at time zone 'UTC')) / 60)::integer
    when 6 then 0
  end;
end;
