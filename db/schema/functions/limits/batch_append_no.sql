-- The number of the next log batch with events of batch lines: below those of background responses. They are
-- never repeated under their number: a repeated call finds the rows of its lines, or that they are gone.
create or replace function daybook.batch_append_no() returns bigint
language sql volatile
begin atomic
  select -1099511627776 - nextval('daybook.batch_append');
end;
