-- A server records the pepper's check value on its first start; it can't be changed afterwards. Returns the
-- recorded value.
create or replace function daybook.claim_pepper(_check text) returns text
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.install set pepper_check = coalesce(pepper_check, _check) returning pepper_check;
end;
