-- The events that an instance appended from a position on. Those of other instances are not looked at.
create or replace function daybook.events_of(_instance integer, _from bigint) returns table (
  "position" bigint, fields daybook.event_fields)
language sql stable
begin atomic
  -- Of an unnested value the fields are read; of a cast each use of a field would parse the line again.
  select l.last_position - l.event_count + e.number, f
    from daybook.log l cross join string_to_table(l.events, e'\n') with ordinality as e(line, number)
      cross join unnest(array[e.line::daybook.event_fields]) as f
    where l.shard = 0 and l.last_position >= _from and l.instance = _instance
      and l.last_position - l.event_count + e.number >= _from;
end;
