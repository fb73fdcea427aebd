-- Responses that providers store: which upstream and credential hold one, and the account that made it.
-- An ordinary table that can't be rebuilt from the log, which has no ids of replies. A row is written when
-- the id is seen in a reply, and deleted with the response, or after as long as OpenAI keeps one.
create table daybook.stored_response (
  account text collate "C" not null,
  -- The provider's own text.
  id text collate "C" not null check (octet_length(id) between 1 and 512),
  upstream text collate "C" not null,
  -- Null: the credential of the environment.
  credential text collate "C",
  created_at timestamptz not null default statement_timestamp(),
  -- Ids of two accounts may be equal: nothing says that two upstreams choose different ones.
  primary key (account, id)
);
create index stored_response_age on daybook.stored_response (created_at);
