-- Raises an alert and queues it for each destination subscribed to its kind whose filter it matches. Returns
-- its id; null if that occurrence of the topic was raised before.
create or replace function daybook.raise_alert(
  _topic text, _ordinal integer, _kind text, _state text, _account text, _details jsonb
) returns uuid
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  _alert uuid;
begin
  insert into daybook.alert (topic, ordinal, kind, state, account, details)
    values (_topic, _ordinal, _kind, _state, _account, _details)
    on conflict do nothing returning id into _alert;
  if found then
    perform daybook.queue_delivery(_alert, d.id) from daybook.alert_destination d
      where d.switched_off_at is null and _kind = any(d.alerts)
        and (d.account is null or d.account = _account) and _details @> d.filter;
  end if;
  return _alert;
end
$$;
