-- Whether an event records that its call was handed over to the background: from there on the reservation is
-- charged as usage, until daybook.settle_background replaces it. 103 is request.extended.
create or replace function daybook.is_handed_over(_type smallint, _body text) returns boolean
language sql immutable
begin atomic
  select _type = 103 and coalesce(_body like '%"handed_over":true%', false);
end;
