-- Starts the delivery of an alert to a destination. As the owner, because servers can't access the queue.
create or replace function daybook.queue_delivery(_alert uuid, _destination text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _delivery uuid;
begin
  insert into daybook.alert_delivery (destination, alert) values (_destination, _alert)
    returning id into _delivery;
  perform daybook.queue_attempt(_delivery, _destination, interval '0');
  return _delivery;
end
$$;
