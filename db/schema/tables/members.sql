-- Sign-in data. These are ordinary tables and no projections: addresses, passwords and authenticator
-- secrets have to be erasable, so the log knows members, sessions and invitations by their ids alone.
-- Membership and roles are in the log; a change here without an event in the same transaction is one that
-- no decision depends on.

create table daybook.member (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  email text collate "C" not null unique check (email = lower(email)),
  -- Argon2id in the PHC string format, with its parameters and salt; null: signs in through a provider.
  password_hash text,
  -- Same as in the log, changed with its event: administrators are counted under the lock of these rows.
  role text collate "C" not null check (role in ('member', 'administrator', 'auditor')),
  -- The secret of an authenticator app, sealed under the pepper (db/secrets/seal.ts), and one that is not
  -- confirmed yet.
  sealed_totp bytea,
  sealed_totp_begun bytea,
  -- The time step of the last accepted code, so that no code works twice.
  totp_step bigint,
  created_at timestamptz not null default clock_timestamp()
);
create index member_administrators on daybook.member (id) where role = 'administrator';

-- Who a member is at an OpenID provider. By the issuer, so that a provider that is pointed at another issuer
-- opens no member to that one's subjects.
create table daybook.identity (
  issuer text collate "C" not null,
  subject text collate "C" not null,
  provider text collate "C" not null,
  member text collate "C" not null references daybook.member on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  primary key (issuer, subject)
);
create index identity_member on daybook.identity (member);
create index identity_provider on daybook.identity (provider);

-- The client secrets of providers, sealed under the pepper (server/sign-in/oidc/client-secret.ts).
create table daybook.provider_secret (
  provider text collate "C" primary key check (provider ~ '^[a-z0-9][a-z0-9-]{0,31}$'),
  sealed_secret bytea not null
);

-- Open sessions; an ended one has no row. The token is in its holder's cookie alone.
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

-- Single-use links: setup, invitation, password reset. Using a link deletes its row.
create table daybook.link (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  kind text collate "C" not null check (kind in ('setup', 'invitation', 'reset')),
  digest bytea not null unique check (length(digest) = 32),
  -- Of an invitation: the account to join, null for a new one, and the role there.
  account text collate "C",
  role text collate "C" check (role in ('member', 'administrator', 'auditor')),
  -- Of a reset: whose password is reset.
  member text collate "C" references daybook.member on delete cascade,
  -- The administrator who created the link, which ends with their rights; null: the command line, or a
  -- member who forgot their password.
  made_by text collate "C" references daybook.member on delete cascade,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  check ((role is not null) = (kind = 'invitation')),
  check ((member is not null) = (kind = 'reset'))
);
create index link_member on daybook.link (member) where member is not null;
create index link_made_by on daybook.link (made_by) where made_by is not null;

-- Recent sign-in attempts, as rate-limiter-flexible counts them. Its keys are digests
-- (server/sign-in/throttle.ts): neither addresses nor networks can be read here.
create table daybook.attempt (
  key varchar(255) collate "C" primary key,
  points integer not null default 0,
  expire bigint
);
create index attempt_expire on daybook.attempt (expire);

-- Tokens of workloads that were exchanged for short-lived keys, until both have expired: so that a token is
-- exchanged once, on whatever server, and the keys are seen. Their secrets are stored nowhere.
create table daybook.token_exchange (
  id text collate "C" primary key check (id ~ '^[0-9A-Za-z]{8}$'),
  -- The key of the workload.
  key text collate "C" not null check (key ~ '^[0-9A-Za-z]{8}$'),
  -- SHA-256 of the issuer and of what makes the token unique; null: it may be exchanged again.
  token bytea unique check (length(token) = 32),
  created_at timestamptz not null default clock_timestamp(),
  -- Of the short-lived key.
  expires_at timestamptz not null,
  kept_until timestamptz not null check (kept_until >= expires_at)
);
create index token_exchange_key on daybook.token_exchange (key, expires_at);
create index token_exchange_kept_until on daybook.token_exchange (kept_until);
