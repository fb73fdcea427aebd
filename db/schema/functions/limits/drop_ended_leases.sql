-- Deletes leases of instances that have ended, at most `_max` of them: their totals are in the allowance, and
-- no report can come any more. Without this, an allowance of a lifetime would keep a lease for each process
-- that ever served its subject. Returns how many were deleted.
create or replace function daybook.drop_ended_leases(_max integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _count bigint;
begin
  delete from daybook.lease where ctid = any (array(
    select l.place
      from daybook.instance i cross join lateral (
        select ctid as place from daybook.lease where instance = i.id and closed limit _max) l
      where i.closed_at is not null
      limit _max));
  get diagnostics _count = row_count;
  return _count;
end
$$;
