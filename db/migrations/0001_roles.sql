-- Four roles, so that append-only is a privilege and not a promise. They belong to the whole
-- cluster, hence "create if missing": another database of the cluster may have made them.
do $$
declare
  _role text;
begin
  foreach _role in array array['daybook_relay', 'daybook_worker', 'daybook_auditor'] loop
    -- Looked for first: an owner that may not create roles can use those that somebody made for it.
    if not exists (select from pg_roles where rolname = _role) then
      begin
        execute format('create role %I nologin', _role);
      exception when duplicate_object or unique_violation then
        null; -- Another starter was faster.
      end;
    end if;
    -- The owner may act as each of them; that is how one DATABASE_URL serves all four.
    if not pg_has_role(current_user, _role, 'SET') then
      execute format('grant %I to current_user', _role);
    end if;
  end loop;
end
$$;

create schema daybook;
revoke all on schema daybook from public;
grant usage on schema daybook to daybook_relay, daybook_worker, daybook_auditor;

-- One row: which log this is, and proof that a server holds the pepper its keys were hashed with.
create table daybook.install (
  only_row boolean primary key default true check (only_row),
  log_id uuid not null default gen_random_uuid(),
  pepper_check text
);
insert into daybook.install default values;
grant select on daybook.install to daybook_relay, daybook_worker, daybook_auditor;

-- A server on its first start records the pepper's check value; nobody can change it afterwards.
create function daybook.claim_pepper(_check text) returns text
language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
  update daybook.install set pepper_check = coalesce(pepper_check, _check) returning pepper_check;
end;
revoke all on function daybook.claim_pepper(text) from public;
grant execute on function daybook.claim_pepper(text) to daybook_relay;
