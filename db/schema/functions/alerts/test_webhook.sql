-- Sends a test alert to a webhook, even if it is switched off. Returns the delivery; null if the webhook does
-- not exist, or no worker has created the queue yet.
create or replace function daybook.test_webhook(_webhook text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _alert uuid;
begin
  if to_regclass('graphile_worker.jobs') is null
      or not exists (select from daybook.webhook where id = _webhook) then
    return null;
  end if;
  insert into daybook.alert (topic, ordinal, kind, state, account, details)
    select 'test/' || gen_random_uuid(), 1, 'test', 'raised', account, '{}'
      from daybook.webhook where id = _webhook
    returning id into _alert;
  return daybook.queue_delivery(_alert, _webhook);
end
$$;
