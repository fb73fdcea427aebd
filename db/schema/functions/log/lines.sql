-- The lines of the events above one position up to another; see daybook.events for their fields. The order
-- is that of positions only with `order by position`, for which all of them are read and sorted. To stop at
-- a limit, use `order by last_position, line_number`. Of each line the first four fields are never quoted:
-- type, request, account, key.
create or replace function daybook.lines(
  _after bigint default 0, _up_to bigint default 9223372036854775807
) returns table (
  "position" bigint, at timestamptz, instance integer, line text, last_position bigint, line_number bigint)
language sql stable
begin atomic
  select l.last_position - l.event_count + e.number, l.at, l.instance, e.line, l.last_position, e.number
    from daybook.log l cross join string_to_table(l.events, e'\n') with ordinality as e(line, number)
    where l.shard = 0 and l.last_position > _after
      -- Once: it is no inlined function.
      and l.last_position <= (select daybook.batch_end(_up_to))
      and l.last_position - l.event_count + e.number > _after
      and l.last_position - l.event_count + e.number <= _up_to;
end;
