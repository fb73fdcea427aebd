-- Whether a partition is part of the log for statements that start now.
create or replace function daybook.is_attached(_partition text) returns boolean
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select exists (select from pg_inherits where inhparent = 'daybook.log'::regclass
    and inhrelid = to_regclass('daybook.' || quote_ident(_partition)) and not inhdetachpending);
end;
