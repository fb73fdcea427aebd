-- The trigger function of the append-only tables; see privileges.sql.
create or replace function daybook.refuse_change() returns trigger
language plpgsql as $$
begin
  raise exception 'the log is append-only: % on %.% is refused', tg_op, tg_table_schema, tg_table_name
    using errcode = 'insufficient_privilege';
end
$$;
