-- What people sign in with. These are ordinary tables and no projections: addresses, passwords and
-- devices have to be erasable, so the log knows members, sessions and invitations by their ids alone.
-- Whether somebody is still a member, and in which role, the log says; what is here without an event
-- of its own in the same transaction is only what no decision rests on.

create table daybook.member (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  email text collate "C" not null unique check (email = lower(email)),
  -- Argon2id in the PHC spelling, with its parameters and salt.
  password_hash text not null,
  -- As the log has it, changed with its event: who is an administrator is counted under the lock of these
  -- rows.
  role text collate "C" not null check (role in ('member', 'administrator', 'auditor')),
  -- The secret of a device, sealed under the pepper (db/secrets/seal.ts), and one that is not confirmed yet.
  sealed_totp bytea,
  sealed_totp_begun bytea,
  -- The step of the last code that was taken, so that none is good twice.
  totp_step bigint,
  created_at timestamptz not null default clock_timestamp()
);
create index member_administrators on daybook.member (id) where role = 'administrator';

-- A session is there or it has ended. Its token is in its holder's cookie alone.
create table daybook.session (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  member text collate "C" not null references daybook.member on delete cascade,
  digest bytea not null unique check (length(digest) = 32),
  opened_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  browser text not null,
  network text not null
);
create index session_member on daybook.session (member);

-- Links that let somebody in once. Using one takes its row away.
create table daybook.link (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  kind text collate "C" not null check (kind in ('setup', 'invitation', 'reset')),
  digest bytea not null unique check (length(digest) = 32),
  -- Of an invitation: the account that is joined, null for one of their own, and the role there.
  account text collate "C",
  role text collate "C" check (role in ('member', 'administrator', 'auditor')),
  -- Of a reset: whose password is chosen anew.
  member text collate "C" references daybook.member on delete cascade,
  -- The administrator who made it, with whose rights it ends; null: the command line, or whoever forgot a
  -- password.
  made_by text collate "C" references daybook.member on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  check ((role is not null) = (kind = 'invitation')),
  check ((member is not null) = (kind = 'reset'))
);
create index link_member on daybook.link (member) where member is not null;
create index link_made_by on daybook.link (made_by) where made_by is not null;

-- Attempts of late, as rate-limiter-flexible counts them. Its keys are digests
-- (server/sign-in/login-throttle.ts): neither addresses nor networks can be read here.
create table daybook.attempt (
  key varchar(255) collate "C" primary key,
  points integer not null default 0,
  expire bigint
);
create index attempt_expire on daybook.attempt (expire);

grant select, insert, update (password_hash, role, sealed_totp, sealed_totp_begun, totp_step), delete on daybook.member to daybook_relay;
grant select, insert, update (seen_at), delete on daybook.session to daybook_relay;
grant select, insert, delete on daybook.link to daybook_relay;
grant select, insert, update, delete on daybook.attempt to daybook_relay;
