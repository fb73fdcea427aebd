-- The events that an instance appended from a position on for its own calls. Those of other instances are not
-- looked at, nor those that it appended for others, under negative batch numbers: recoveries, the endings of
-- background responses and the lines of batches. None of these is charged to its leases.
create or replace function daybook.events_of(_instance integer, _from bigint) returns table (
  "position" bigint, fields daybook.event_fields)
language sql stable
begin atomic
  -- Of an unnested value the fields are read; of a cast each use of a field would parse the line again.
  select l.last_position - l.event_count + e.number, f
    from daybook.log l cross join string_to_table(l.events, e'\n') with ordinality as e(line, number)
      cross join unnest(array[e.line::daybook.event_fields]) as f
    where l.shard = 0 and l.last_position >= _from and l.instance = _instance
      and l.last_position - l.event_count + e.number >= _from
      and exists (select from daybook.log_batch b
        where b.shard = 0 and b.last_position = l.last_position and b.batch_no >= 0);
end;
