-- Deletes allowances of windows that have ended and limit nothing any more, at most `_max` of each kind of
-- window. They are kept a little longer than a request can run, for readers of the previous window's figures.
-- Those that an exchange has locked are left for the next time. Returns how many were deleted.
create or replace function daybook.drop_ended_allowances(_max integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _minute constant integer := (extract(epoch from clock_timestamp()) / 60)::integer;
  _count bigint;
begin
  delete from daybook.allowance where id = any (
      array(select id from daybook.allowance where window_kind = 1 and window_start < _minute - 10
        limit _max for update skip locked)
      || array(select id from daybook.allowance where window_kind = 2 and window_start < _minute - 2 * 60 - 60
        limit _max for update skip locked)
      || array(select id from daybook.allowance where window_kind = 3 and window_start < _minute - 3 * 1440
        limit _max for update skip locked)
      || array(select id from daybook.allowance where window_kind = 4 and window_start < _minute - 9 * 1440
        limit _max for update skip locked)
      || array(select id from daybook.allowance where window_kind = 5 and window_start < _minute - 64 * 1440
        limit _max for update skip locked));
  get diagnostics _count = row_count;
  return _count;
end
$$;
