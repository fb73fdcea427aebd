-- Projections: tables that are rebuilt from the log and never asked by what enforces. They are the
-- worker's own, so that a fresh copy can be made in `projection_build` and put in the place of the
-- old one. Everybody else reads.
create schema projection;
create schema projection_build;
grant usage, create on schema projection, projection_build to daybook_worker;
grant usage on schema projection to daybook_relay, daybook_auditor;

-- How far each projection has come. A row is locked by whoever moves it, and its tables change in
-- the same transaction: exactly once, whoever dies when.
create table daybook.projection (
  name text collate "C" primary key,
  position bigint not null default 0,
  -- False: its tables are missing, or it can't go on. The others go on without it, and a rebuild makes it
  -- anew.
  is_live boolean not null default true,
  -- The time of the event at `position`: the figures are as of then.
  position_at timestamptz,
  -- What retention has taken away: rows that ended before are not there, and a rebuild leaves them out.
  kept_from timestamptz not null default '-infinity',
  rebuilt_at timestamptz
);

-- Who projects: the newest to have asked for a number. Whoever sees a newer one than its own ends.
create sequence daybook.projector_seat;
grant usage, select on sequence daybook.projector_seat to daybook_worker;

-- Events that a projection could not take: damaged, or of a newer version. The rest goes on.
create table daybook.parked_event (
  projection text collate "C" not null references daybook.projection on delete cascade,
  position bigint not null,
  reason text not null,
  parked_at timestamptz not null default clock_timestamp(),
  primary key (projection, position)
);
grant select, insert, update, delete on daybook.projection, daybook.parked_event to daybook_worker;
grant select on daybook.projection, daybook.parked_event to daybook_relay, daybook_auditor;
insert into daybook.projection (name) values ('requests'), ('usage'), ('quotas'), ('directory');

-- The tables of a projection, made in the first schema of the search path: the live ones, or a fresh
-- copy to be put in their place or compared with them. A migration that changes them replaces this.
create function daybook.create_projection(_name text) returns void
language plpgsql as $$
begin
  case _name
  when 'requests' then
    -- Each call, as the log tells it so far; a refused one too, where many alike are one row.
    -- Running: `ended_at` is null. Refused: `refusal` is not.
    create table request (
      request uuid primary key,
      -- Of its first event and of its ending.
      position bigint not null,
      end_position bigint,
      accepted_at timestamptz not null,
      ended_at timestamptz,
      hold_tokens bigint,
      hold_cost_microusd bigint,
      cost_microusd bigint,
      terms_position bigint,
      instance integer not null,
      admitted_minute integer,
      body_bytes integer,
      input_tokens integer,
      cached_tokens integer,
      output_tokens integer,
      reasoning_tokens integer,
      first_byte_ms integer,
      duration_ms integer,
      price_version integer,
      refused_count integer,
      status smallint,
      end_reason smallint,
      usage_source smallint,
      attempts smallint,
      retry_count smallint,
      sse boolean,
      account text collate "C" not null,
      key text collate "C" not null,
      model text collate "C",
      upstream text collate "C",
      refusal text collate "C"
    ) with (fillfactor = 80);
    -- Pages of a list, newest first, in the window that is shown.
    create index request_account on request (account, accepted_at, position);
    create index request_key on request (key, accepted_at, position);
    create index request_all on request (accepted_at, position);

    -- The running ones again. An index on whether a call has ended would make each ending write all
    -- indexes anew; no column that an ending changes is in one, so it stays within its page.
    create table running_request (
      request uuid primary key,
      position bigint not null,
      account text collate "C" not null
    );
    create index running_request_account on running_request (account, position);
  when 'usage' then
    -- Usage, by when a call ended: by key and model in minutes and days, by account in hours and days,
    -- and of all in minutes and hours, so that whatever is asked is a sum over few rows. What is
    -- counted is the same in all of them:
    --   completed … relay_failed: endings by outcome (db/projections/outcomes.ts); refused: calls refused;
    --   unpriced: endings without a cost; abandoned_tokens: holds that stay charged without a report;
    --   duration_counts, first_byte_counts: how many took up to each of the bounds of
    --   db/projections/buckets.ts.
    create table usage_minute (
      minute timestamptz not null,
      account text collate "C" not null,
      key text collate "C" not null,
      -- Empty where the call was refused before its model mattered.
      model text collate "C" not null,
      completed bigint not null default 0,
      client_gone bigint not null default 0,
      upstream_failed bigint not null default 0,
      cut_short bigint not null default 0,
      relay_failed bigint not null default 0,
      refused bigint not null default 0,
      unpriced bigint not null default 0,
      input_tokens bigint not null default 0,
      cached_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      reasoning_tokens bigint not null default 0,
      abandoned_tokens bigint not null default 0,
      cost_microusd bigint not null default 0,
      duration_counts bigint[] not null,
      first_byte_counts bigint[] not null,
      primary key (account, minute, key, model)
    ) with (fillfactor = 80);
    create index usage_minute_all on usage_minute (minute);

    create table usage_day (
      like usage_minute including defaults including storage,
      primary key (account, minute, key, model)
    ) with (fillfactor = 80);
    alter table usage_day rename column minute to day;
    create index usage_day_all on usage_day (day);

    -- By key and model as the minutes are, and kept as long: a day of a busy account in few rows.
    create table usage_hour_key (
      like usage_minute including defaults including storage,
      primary key (account, minute, key, model)
    ) with (fillfactor = 80);
    alter table usage_hour_key rename column minute to hour;
    create index usage_hour_key_all on usage_hour_key (hour);

    create table usage_hour (
      like usage_minute including defaults including storage
    ) with (fillfactor = 80);
    alter table usage_hour rename column minute to hour;
    alter table usage_hour drop column key, drop column model;
    alter table usage_hour add primary key (account, hour);
    create index usage_hour_all on usage_hour (hour);

    create table usage_hour_total (
      like usage_hour including defaults including storage
    ) with (fillfactor = 80);
    alter table usage_hour_total drop column account;
    alter table usage_hour_total add primary key (hour);

    create table usage_day_account (
      like usage_hour including defaults including storage,
      primary key (account, hour)
    ) with (fillfactor = 80);
    alter table usage_day_account rename column hour to day;
    create index usage_day_account_all on usage_day_account (day);

    create table usage_minute_total (
      like usage_hour_total including defaults including storage,
      primary key (hour)
    ) with (fillfactor = 80);
    alter table usage_minute_total rename column hour to minute;

    -- When each key was last used, and for what in all.
    create table key_use (
      key text collate "C" primary key,
      account text collate "C" not null,
      last_used_at timestamptz,
      requests bigint not null default 0,
      cost_microusd bigint not null default 0
    ) with (fillfactor = 70);
  when 'quotas' then
    -- Quotas that are in force or were, window by window: what running calls hold and ended ones used.
    create table quota_window (
      cap bigint not null,
      used bigint not null default 0,
      held bigint not null default 0,
      -- The control event that began the windows anew; 0 when none ever did.
      reset_position bigint not null,
      -- The newest event that was charged here or changed the cap, so that whoever shows it can ask for what
      -- is newer.
      position bigint not null,
      -- Minutes since 1970, as in the log; and the same as a time, by which old windows are found.
      window_start integer not null,
      begins_at timestamptz not null generated always as (to_timestamp(window_start::double precision * 60)) stored,
      meter smallint not null,
      window_kind smallint not null,
      is_exact boolean not null,
      -- `account/<id>` or `key/<id>`, and the account that either belongs to.
      subject text collate "C" not null,
      account text collate "C" not null,
      primary key (subject, meter, window_kind, window_start, reset_position)
    ) with (fillfactor = 70);
    create index quota_window_account on quota_window (account, window_start);
    create index quota_window_position on quota_window (position);
    create index quota_window_begin on quota_window (begins_at);

    -- Which quotas a subject had when: those that a call is charged to are those in force at the
    -- position of its terms. `from_minute` is of the event that began them.
    create table quota_terms (
      cap bigint not null,
      reset_position bigint not null,
      position bigint not null,
      until_position bigint,
      from_minute integer not null,
      meter smallint not null,
      window_kind smallint not null,
      is_exact boolean not null,
      subject text collate "C" not null,
      primary key (subject, meter, window_kind, position)
    );
    -- What the next change of terms is folded onto: accounts with their plan and the quotas that
    -- stand in place of its, plans and keys with theirs; null where the terms name none.
    create table quota_source (
      reset_position bigint not null,
      subject text collate "C" primary key,
      account text collate "C",
      plan text collate "C",
      quotas jsonb
    );
    create index quota_source_plan on quota_source (plan) where account is not null;
    -- What running calls hold, window by window; `position` is of the acceptance.
    create table open_hold (
      request uuid not null,
      position bigint not null,
      held bigint not null,
      reset_position bigint not null,
      window_start integer not null,
      meter smallint not null,
      window_kind smallint not null,
      subject text collate "C" not null,
      account text collate "C" not null,
      primary key (request, position, subject, meter, window_kind)
    ) with (fillfactor = 70);
  when 'directory' then
    -- Accounts, keys, plans and prices as they are, for lists. No digest of a secret is here.
    create table account (
      id text collate "C" primary key,
      name text not null,
      state text not null,
      plan text collate "C",
      override jsonb,
      registered_at timestamptz not null,
      version integer not null,
      position bigint not null
    );
    create table key (
      id text collate "C" primary key,
      account text collate "C" not null,
      name text not null,
      last4 text not null,
      created_at timestamptz not null,
      expires_at timestamptz,
      expired_at timestamptz,
      revoked_at timestamptz,
      rotated_at timestamptz,
      overlap_ends_at timestamptz,
      previous_last4 text,
      terms jsonb,
      version integer not null,
      position bigint not null
    );
    create index key_account on key (account);
    -- Whose end is to be put down next, or told of.
    create index key_expires on key (expires_at) where expired_at is null and revoked_at is null;
    create table plan (
      name text collate "C" primary key,
      terms jsonb not null,
      retired_at timestamptz,
      version integer not null,
      position bigint not null
    );
    create table model_price (
      model text collate "C" primary key,
      prices jsonb not null,
      source text not null,
      version integer not null,
      position bigint not null
    );
  end case;
end
$$;
revoke all on function daybook.create_projection(text) from public;
grant execute on function daybook.create_projection(text) to daybook_worker, daybook_auditor;

set local role daybook_worker;
alter default privileges in schema projection, projection_build grant select on tables to daybook_relay, daybook_auditor;
set local search_path = projection;
select daybook.create_projection(name) from daybook.projection;
set local search_path to default;
reset role;
