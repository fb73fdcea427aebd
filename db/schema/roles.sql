-- The roles that append-only rests on: privileges, not promises. Roles belong to the whole cluster, so
-- another database of the cluster may have created them already.
do $$
declare
  _role text;
begin
  foreach _role in array array['daybook_relay', 'daybook_worker', 'daybook_auditor'] loop
    -- Checked first: an owner without CREATEROLE can use roles that an administrator created for it.
    if not exists (select from pg_roles where rolname = _role) then
      begin
        execute format('create role %I nologin', _role);
      exception when duplicate_object or unique_violation then
        null; -- A concurrent starter created it.
      end;
    end if;
    -- The owner may act as each of the roles, so one DATABASE_URL serves all four.
    if not pg_has_role(current_user, _role, 'SET') then
      execute format('grant %I to current_user', _role);
    end if;
  end loop;
end
$$;
