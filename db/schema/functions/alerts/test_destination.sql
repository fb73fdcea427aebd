-- Sends a test alert to a destination, even if it is switched off. Returns the delivery; null if the
-- destination does not exist, or no worker has created the queue yet.
create or replace function daybook.test_destination(_destination text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _alert uuid;
begin
  if to_regclass('graphile_worker.jobs') is null
      or not exists (select from daybook.alert_destination where id = _destination) then
    return null;
  end if;
  insert into daybook.alert (topic, ordinal, kind, state, account, details)
    select 'test/' || gen_random_uuid(), 1, 'test', 'raised', account, '{}'
      from daybook.alert_destination where id = _destination
    returning id into _alert;
  return daybook.queue_delivery(_alert, _destination);
end
$$;
