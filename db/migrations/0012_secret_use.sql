-- When each secret of a key that is being rotated was last used: whoever ends the old one wants to
-- know whether anybody still has it. Events of calls don't tell by which secret they came, and one
-- event more for each call would be a high price for it, so servers note it in memory and write it
-- down about once a minute. That makes it an exception from what can be rebuilt; what is lost with
-- it is this knowledge alone.
create table daybook.secret_use (
  key text collate "C" not null,
  -- What people see of a secret. Of two secrets of one key it is the same once in fifteen million.
  last4 text collate "C" not null,
  used_at timestamptz not null,
  primary key (key, last4)
);
-- What was used long ago, in a rotation that is over, is of no interest any more and is deleted.
grant select, insert, update, delete on daybook.secret_use to daybook_relay;
grant select on daybook.secret_use to daybook_auditor;
