-- What the worker keeps beside the log: alerts, where they go, and who holds which jobs. These are
-- ordinary tables, exceptions from what can be rebuilt. Addresses of receivers are often secrets in
-- themselves and have to be erasable, so neither they nor their changes are events.

-- Where alerts are sent. The address and the secret that deliveries are signed with are sealed under
-- the pepper (db/alerts/webhooks.ts): a backup of the database shows neither.
create table daybook.webhook (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  -- Scheme, host and port of the address; the rest of it stays sealed.
  origin text not null,
  sealed_target bytea not null,
  -- Alerts about this account alone; null: all, and those that are about no account.
  account text collate "C",
  alerts text[] not null check (cardinality(alerts) > 0),
  -- Whether it may be in a private network or on this machine.
  allow_private boolean not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Attempts that failed since the last that did not, and when the first of them was.
  failures integer not null default 0,
  failing_since timestamptz,
  -- Nothing is sent any more, until a test succeeds.
  switched_off_at timestamptz
);

-- Each alert once, whoever noticed it: `topic` says of what it is, `ordinal` which time. A condition
-- that lasts has odd ordinals where it begins and even ones where it ends.
create table daybook.alert (
  id uuid primary key default uuidv7(),
  topic text collate "C" not null,
  ordinal integer not null check (ordinal > 0),
  kind text collate "C" not null,
  state text not null check (state in ('raised', 'recovered')),
  account text collate "C",
  details jsonb not null,
  raised_at timestamptz not null default clock_timestamp(),
  unique (topic, ordinal)
);
create index alert_raised on daybook.alert (raised_at);

-- An alert on its way to a webhook. The id is what the receiver tells repeated attempts by.
create table daybook.webhook_delivery (
  id uuid primary key default uuidv7(),
  webhook text collate "C" not null references daybook.webhook on delete cascade,
  alert uuid not null references daybook.alert on delete cascade,
  state text not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  unique (webhook, alert)
);
create index webhook_delivery_alert on daybook.webhook_delivery (alert);

-- Every attempt. Of the reply only its status is kept; `fault` says why there was none.
create table daybook.webhook_attempt (
  delivery uuid not null references daybook.webhook_delivery on delete cascade,
  attempted_at timestamptz not null default clock_timestamp(),
  status smallint,
  fault text,
  duration_ms integer not null,
  primary key (delivery, attempted_at),
  check ((status is null) = (fault is not null))
);

-- Up to which event the quota windows were looked at for alerts.
create table daybook.alert_look (
  kind text collate "C" primary key,
  position bigint not null
);

-- Under which name a worker holds its jobs. When it is dead they are free again at once, and not
-- after the four hours that the queue itself would wait.
create table daybook.queue_pool (
  pool text collate "C" primary key,
  instance integer not null references daybook.instance
);

grant select, insert, update, delete on daybook.webhook, daybook.alert, daybook.webhook_delivery,
  daybook.webhook_attempt, daybook.alert_look, daybook.queue_pool to daybook_worker;
-- Who manages webhooks writes a sealed target and never reads one.
grant select (id, origin, account, alerts, allow_private, created_at, failures, failing_since, switched_off_at),
  insert (id, origin, sealed_target, account, alerts, allow_private), delete on daybook.webhook to daybook_relay;
grant select on daybook.alert, daybook.webhook_delivery, daybook.webhook_attempt to daybook_relay, daybook_auditor;

-- Queues the next attempt of a delivery. Deliveries wait in four lanes: receivers that do not answer
-- take no more than four jobs of all workers together.
create function daybook.queue_attempt(_delivery uuid, _webhook text, _pause interval) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform graphile_worker.add_job('deliver_webhook', json_build_object('delivery', _delivery),
    queue_name => 'webhooks-' || (hashtext(_webhook) & 3), run_at => clock_timestamp() + _pause,
    job_key => 'deliver-' || _delivery);
end
$$;

-- Begins the delivery of an alert to a webhook. As the owner, because servers have no part in the queue.
create function daybook.queue_delivery(_alert uuid, _webhook text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _delivery uuid;
begin
  insert into daybook.webhook_delivery (webhook, alert) values (_webhook, _alert) returning id into _delivery;
  perform daybook.queue_attempt(_delivery, _webhook, interval '0');
  return _delivery;
end
$$;

-- Raises an alert and queues it for each webhook that wants it. Returns its id; null when that time of
-- the topic was noticed before.
create function daybook.raise_alert(
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
    perform daybook.queue_delivery(_alert, w.id) from daybook.webhook w
      where w.switched_off_at is null and _kind = any(w.alerts) and (w.account is null or w.account = _account);
  end if;
  return _alert;
end
$$;

-- Sends a webhook an alert that is only a test, also when it is switched off. Returns the delivery;
-- null when there is no such webhook, or no worker has made the queue yet.
create function daybook.test_webhook(_webhook text) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  _alert uuid;
begin
  if to_regclass('graphile_worker.jobs') is null or not exists (select from daybook.webhook where id = _webhook) then
    return null;
  end if;
  insert into daybook.alert (topic, ordinal, kind, state, account, details)
    select 'test/' || gen_random_uuid(), 1, 'test', 'raised', account, '{}' from daybook.webhook where id = _webhook
    returning id into _alert;
  return daybook.queue_delivery(_alert, _webhook);
end
$$;

revoke all on function daybook.queue_attempt(uuid, text, interval), daybook.queue_delivery(uuid, text),
  daybook.raise_alert(text, integer, text, text, text, jsonb), daybook.test_webhook(text) from public;
grant execute on function daybook.queue_attempt(uuid, text, interval), daybook.queue_delivery(uuid, text),
  daybook.raise_alert(text, integer, text, text, text, jsonb) to daybook_worker;
grant execute on function daybook.test_webhook(text) to daybook_relay;
