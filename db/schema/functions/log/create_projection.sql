-- Creates the tables of a projection in the first schema of the search path: the live ones, or a fresh copy
-- that replaces them or is compared with them. A migration that changes live tables changes this as well.
create or replace function daybook.create_projection(_name text) returns void
language plpgsql as $$
begin
  case _name
  when 'requests' then
    -- Every request, as far as the log has it; rejected ones too, where many alike share a row.
    -- Running: `ended_at` is null. Rejected: `error_code` is not null.
    create table request (
      request uuid primary key,
      -- Of the request's first event and of its ending.
      position bigint not null,
      end_position bigint,
      accepted_at timestamptz not null,
      ended_at timestamptz,
      hold_tokens bigint,
      hold_cost_nanousd bigint,
      cost_nanousd bigint,
      -- Null: the same as `cost_nanousd`.
      upstream_cost_nanousd bigint,
      terms_position bigint,
      instance integer not null,
      admitted_minute integer,
      body_bytes integer,
      input_tokens integer,
      cache_read_tokens integer,
      cache_write_tokens integer,
      output_tokens integer,
      reasoning_tokens integer,
      first_byte_ms integer,
      duration_ms integer,
      price_version integer,
      rejected_count integer,
      status smallint,
      end_reason smallint,
      usage_source smallint,
      attempt_count smallint,
      retry_count smallint,
      -- Observed limits that would have rejected it.
      observed smallint,
      route smallint,
      sse boolean,
      account text collate "C" not null,
      key text collate "C" not null,
      model text collate "C",
      upstream text collate "C",
      error_code text collate "C",
      -- Pseudonyms; the tags are words, one space apart.
      end_user text collate "C",
      session text collate "C",
      tags text collate "C"
    ) partition by range (request);
    -- By time, since a request's id begins with the time of its making; db/projections/request-partitions.ts
    -- creates partitions ahead, and retention drops whole ones. Here is what none of them covers: requests
    -- from before the first partition, and those of a server whose clock is wrong.
    create table request_default partition of request default with (fillfactor = 80);
    -- Pages of a list, newest first, in the selected time range.
    -- Those of the same time, which share a batch, are sorted by position as they are read.
    create index request_account on request (account, accepted_at);
    create index request_key on request (key, accepted_at);
    create index request_all on request (accepted_at);

    -- The running requests again. An index on whether a request has ended would make each ending update
    -- every index; no indexed column changes at an ending, so the update stays within its page (HOT).
    create table running_request (
      request uuid primary key,
      position bigint not null,
      account text collate "C" not null
    );
    create index running_request_account on running_request (account, position);
  when 'usage' then
    -- Usage, by the time at which a request ended: by key and model in minutes and days, by account in hours
    -- and days, and totals in minutes and hours, so that every report is a sum over few rows. All tables
    -- have the same counters:
    --   completed … relay_failed: endings by outcome (db/projections/outcomes.ts);
    --   refused: rejected requests;
    --   unpriced: endings without a cost;
    --   estimated: endings whose usage the provider did not report, and estimated_cost_nanousd: their cost;
    --   upstream_cost_nanousd: the cost of all attempts, where cost_nanousd is what accounts are charged;
    --   corrections: of requests of any time, when they were recorded; correction_cost_nanousd: their part of
    --     cost_nanousd. Their other amounts are in the other columns alone;
    --   abandoned_tokens: holds that stay charged without a usage report;
    --   duration_counts, first_byte_counts: histograms with the bounds of db/projections/buckets.ts.
    create table usage_minute (
      minute timestamptz not null,
      account text collate "C" not null,
      key text collate "C" not null,
      -- Empty if the request was rejected before its model was resolved.
      model text collate "C" not null,
      completed bigint not null default 0,
      client_disconnected bigint not null default 0,
      upstream_failed bigint not null default 0,
      cut_short bigint not null default 0,
      relay_failed bigint not null default 0,
      refused bigint not null default 0,
      unpriced bigint not null default 0,
      estimated bigint not null default 0,
      input_tokens bigint not null default 0,
      cache_read_tokens bigint not null default 0,
      cache_write_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      reasoning_tokens bigint not null default 0,
      abandoned_tokens bigint not null default 0,
      cost_nanousd bigint not null default 0,
      upstream_cost_nanousd bigint not null default 0,
      estimated_cost_nanousd bigint not null default 0,
      corrections bigint not null default 0,
      correction_cost_nanousd bigint not null default 0,
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

    -- By key and model as the minutes are, with the same retention: a day of a busy account in few rows.
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

    -- What statements add up, so that they read no calls: endings and rejections by the UTC day of their
    -- event, by key and model, by kind (db/projections/page/statement-sums.ts), and by the terms that the
    -- calls were admitted by, which say whether they are charged to a prepaid balance (0: no terms). Each
    -- correction is read from the log.
    create table statement_day (
      day timestamptz not null,
      terms_position bigint not null,
      requests bigint not null,
      estimated bigint not null,
      input_tokens bigint not null,
      cache_read_tokens bigint not null,
      cache_write_tokens bigint not null,
      output_tokens bigint not null,
      reasoning_tokens bigint not null,
      abandoned_tokens bigint not null,
      estimated_cost_nanousd bigint not null,
      cost_nanousd bigint not null,
      -- Of the first and the last event.
      first_position bigint not null,
      last_position bigint not null,
      kind smallint not null,
      account text collate "C" not null,
      key text collate "C" not null,
      -- Empty if the request was rejected: statements count those without their models.
      model text collate "C" not null,
      primary key (account, day, key, model, kind, terms_position)
    ) with (fillfactor = 80);

    -- The last use of each key, with its total requests and cost.
    create table key_use (
      key text collate "C" primary key,
      account text collate "C" not null,
      last_used_at timestamptz,
      requests bigint not null default 0,
      cost_nanousd bigint not null default 0
    ) with (fillfactor = 70);
  when 'history' then
    -- Usage by hour of each account, key, end user and model, kept for some weeks, for
    -- forecasts and for alerts of unusual usage. Subjects are named as in quota_window; models are
    -- `model/<account>/<model>`.
    create table usage_history (
      subject text collate "C" not null,
      hour timestamptz not null,
      -- Its own; of a key's, end user's or model's usage the account of the calls.
      account text collate "C" not null,
      tokens bigint not null,
      cost_nanousd bigint not null,
      primary key (subject, hour)
    ) with (fillfactor = 80);
    create index usage_history_hour on usage_history (hour);
  when 'quotas' then
    -- Current and past quotas by window: units held by running requests and used by ended ones.
    create table quota_window (
      cap bigint not null,
      used bigint not null default 0,
      held bigint not null default 0,
      -- The control event that reset the windows; 0 if they were never reset.
      reset_position bigint not null,
      -- The newest event that was charged here or changed the cap, so that readers can ask for newer ones.
      position bigint not null,
      -- Minutes since 1970, as in the log; and the same as a time, by which old windows are found.
      window_start integer not null,
      -- A lifetime (6) is never old.
      begins_at timestamptz not null generated always as (
        case window_kind when 6 then 'infinity'::timestamptz
          else to_timestamp(window_start::double precision * 60) end) stored,
      meter smallint not null,
      window_kind smallint not null,
      -- What its holder's terms count apart: 0 nothing, 1 end users, 2 sessions, 3 tags.
      per smallint not null,
      -- 0 soft, 1 hard, 2 observe.
      enforcement smallint not null,
      -- The subject, the account or key whose terms limit it (`account/<id>` or `key/<id>`), and the account
      -- that it belongs to. See daybook.subjects_of.
      subject text collate "C" not null,
      holder text collate "C" not null,
      account text collate "C" not null,
      primary key (subject, meter, window_kind, window_start, reset_position)
    ) with (fillfactor = 70);
    create index quota_window_account on quota_window (account, window_start);
    -- Readers follow the windows of accounts and keys; those of end users, sessions and tags are many.
    create index quota_window_position on quota_window (position) where per = 0;
    -- Of those many, the ones that alerts are raised for.
    create index quota_window_near on quota_window (position)
      where per <> 0 and used > 0 and used::double precision >= cap::double precision * 0.8;
    create index quota_window_holder on quota_window (holder) where per <> 0;
    create index quota_window_begin on quota_window (begins_at);

    -- The history of a subject's quotas: a request is charged to the quotas in force at the position of its
    -- terms. `from_minute` is the minute of the event that set them.
    create table quota_terms (
      cap bigint not null,
      reset_position bigint not null,
      position bigint not null,
      until_position bigint,
      from_minute integer not null,
      meter smallint not null,
      window_kind smallint not null,
      per smallint not null,
      enforcement smallint not null,
      -- The account or key whose terms they are.
      subject text collate "C" not null,
      primary key (subject, per, meter, window_kind, position)
    );
    -- The state onto which the next change of terms is folded: accounts with their plan and the quotas that
    -- override it, plans and keys with theirs; null if the terms have no quotas.
    create table quota_source (
      reset_position bigint not null,
      subject text collate "C" primary key,
      account text collate "C",
      plan text collate "C",
      quotas jsonb,
      -- Whether the terms are prepaid; null if they say nothing. And the top-ups of an account, or 0.
      prepaid boolean,
      topped_up_nanousd bigint not null
    );
    create index quota_source_plan on quota_source (plan) where account is not null;
    -- Units held by running requests, by window; `position` is that of the acceptance.
    create table open_hold (
      request uuid not null,
      position bigint not null,
      held bigint not null,
      reset_position bigint not null,
      window_start integer not null,
      meter smallint not null,
      window_kind smallint not null,
      per smallint not null,
      subject text collate "C" not null,
      holder text collate "C" not null,
      account text collate "C" not null,
      primary key (request, position, subject, meter, window_kind)
    ) with (fillfactor = 70);
  when 'directory' then
    -- The current accounts, keys, plans and prices, for lists. Without digests of secrets.
    create table account (
      id text collate "C" primary key,
      name text not null,
      state text not null,
      plan text collate "C",
      override jsonb,
      parent text collate "C",
      -- The sum of its top-ups.
      topped_up_nanousd bigint not null,
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
    -- The next keys to expire, for marking them expired and for alerts.
    create index key_expires on key (expires_at) where expired_at is null and revoked_at is null;
    create table plan (
      name text collate "C" primary key,
      terms jsonb not null,
      retired_at timestamptz,
      version integer not null,
      position bigint not null
    );
    create table model_price (
      -- Of its events: a model has a price of its provider, and one for each plan.
      stream text collate "C" primary key,
      model text not null,
      plan text,
      terms jsonb not null,
      source text not null,
      version integer not null,
      position bigint not null
    );
  end case;
end
$$;
