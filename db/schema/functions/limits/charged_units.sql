-- The units of a meter that a request is charged by the event: of request.settled (101) those that it
-- settled; of any other event those that it had reserved, for an abandoned request. Its twin are the rows of
-- db/limits/meters.ts, and test/db/meters.test.ts compares the two for every meter. Null for an unknown
-- meter.
create or replace function daybook.charged_units(_meter smallint, _event daybook.event_fields) returns bigint
language sql immutable
begin atomic
  select case _meter
    when 1 then 1
    when 2 then case _event.type
      when 101 then _event.input_tokens::bigint + _event.output_tokens else _event.hold_tokens end
    when 3 then coalesce(case _event.type
      when 101 then _event.cost_nanousd else _event.hold_cost_nanousd end, 0)
    when 4 then 0
  end;
end;
