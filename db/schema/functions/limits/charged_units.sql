-- The units of a meter that a request is charged by the event: of request.settled (101) those that it
-- settled; of usage.adjusted (1001) those that it adds; of any other event those that it had reserved, for an
-- abandoned request. Its twin are the rows of
-- db/limits/meters.ts, and test/db/meters.test.ts compares the two for every meter. Null for an unknown
-- meter.
create or replace function daybook.charged_units(_meter smallint, _event daybook.event_fields) returns bigint
language sql immutable
begin atomic
  select case _meter
    when 1 then case _event.type when 1001 then 0 else 1 end
    when 2 then case _event.type
      when 101 then _event.input_tokens::bigint + _event.output_tokens
      when 1001 then coalesce(_event.input_tokens, 0)::bigint + coalesce(_event.output_tokens, 0)
        + coalesce(_event.hold_tokens, 0)
      else _event.hold_tokens end
    when 3 then coalesce(case when _event.type in (101, 1001) then _event.cost_nanousd
      else _event.hold_cost_nanousd end, 0)
    when 4 then 0
  end;
end;
