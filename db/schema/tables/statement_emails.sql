-- Statements by email. Ordinary tables that can't be rebuilt from the log: addresses have to be erasable, so
-- neither they nor their changes are events. Removing a recipient erases its address everywhere.

-- Whether statements are sent monthly; at most one row.
create table daybook.statement_schedule (
  only_row boolean primary key default true check (only_row),
  -- The day of the next month on which a month's statements are sent.
  day smallint not null check (day between 1 and 28),
  -- Months that end later are sent; null: none are.
  on_since timestamptz,
  -- The newest month whose emails were created, such as 2027-01.
  planned text collate "C"
);

-- The recipients of an account's statements.
create table daybook.statement_recipient (
  account text collate "C" not null check (account ~ '^[0-9A-Za-z]{8}$'),
  email text collate "C" not null check (email = lower(email)),
  -- Months that end later are sent.
  added_at timestamptz not null default clock_timestamp(),
  primary key (account, email)
);

-- A document on its way to one recipient: the statement or invoice of a month, or the document of a number.
-- Each attempt has the `Message-ID` of the row.
create table daybook.statement_email (
  -- As in alert_delivery.
  id uuid primary key default
    (overlay(lpad(to_hex((extract(epoch from clock_timestamp()) * 4096000)::bigint), 15, '0')
      placing '7' from 13 for 0) || substr(gen_random_uuid()::text, 20))::uuid,
  account text collate "C" not null,
  email text collate "C" not null,
  -- Such as 2027-01.
  month text collate "C" check (month ~ '^[0-9]{4}-[0-9]{2}$'),
  -- The number of an invoice or a credit note.
  invoice integer check (invoice > 0),
  -- By the schedule, once; otherwise on demand.
  is_monthly boolean not null,
  -- Skipped: the account had no charge, top-up or adjustment in the month.
  state text not null default 'waiting' check (state in ('waiting', 'sent', 'skipped', 'failed')),
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  attempts integer not null default 0 check (attempts >= 0),
  -- When the next attempt is due. While one runs: when it counts as lost with its worker.
  due_at timestamptz not null default clock_timestamp(),
  -- The mail server's status of the newest attempt; `fault` says why it is missing.
  status smallint,
  fault text,
  foreign key (account, email) references daybook.statement_recipient on delete cascade,
  check ((month is null) <> (invoice is null)),
  check (month is not null or not is_monthly),
  check ((state = 'waiting') = (ended_at is null))
);
create unique index statement_email_monthly on daybook.statement_email (account, email, month)
  where is_monthly;
create index statement_email_due on daybook.statement_email (due_at) where state = 'waiting';
create index statement_email_newest on daybook.statement_email (account, id);
