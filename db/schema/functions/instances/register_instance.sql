-- Registers a process that may append, and returns its number, which is never reused.
create or replace function daybook.register_instance(_name text) returns integer
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  insert into daybook.instance (name, open_from) values (_name, daybook.head(0::smallint) + 1) returning id;
end;
