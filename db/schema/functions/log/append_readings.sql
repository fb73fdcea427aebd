-- Appends the readings of outside logins, one event for each login and kind, and returns how many: called
-- once a minute, this bounds what a login can add to the log. A reading in an open transaction waits for the
-- next call. Characters of a login that an actor can't have are replaced.
create or replace function daybook.append_readings() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _reading record;
  _count integer := 0;
begin
  for _reading in
    delete from daybook.reading where (login, what) in
      (select login, what from daybook.reading order by login, what limit 1000 for update skip locked)
      returning login, what, from_position, to_position
  loop
    perform daybook.append_reading(
      'login/' || left(regexp_replace(_reading.login collate "C", '[^A-Za-z0-9._-]', '_', 'g'), 90),
      _reading.what, _reading.from_position, _reading.to_position);
    _count := _count + 1;
  end loop;
  return _count;
end
$$;
