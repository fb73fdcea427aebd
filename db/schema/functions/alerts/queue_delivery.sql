-- Starts the delivery of an alert to a webhook. As the owner, because servers have no access to the queue.
create or replace function daybook.queue_delivery(_alert uuid, _webhook text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _delivery uuid;
begin
  insert into daybook.webhook_delivery (webhook, alert) values (_webhook, _alert) returning id into _delivery;
  perform daybook.queue_attempt(_delivery, _webhook, interval '0');
  return _delivery;
end
$$;
