-- Has a worker send due emails of statements now. As the owner, because servers can't access the queue.
-- Returns false where no worker has created the queue yet; the first one will find them.
create or replace function daybook.queue_statement_emails() returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if to_regclass('graphile_worker.jobs') is null then
    return false;
  end if;
  perform graphile_worker.add_job('email_statements', json_build_object(), job_key => 'email_statements_now',
    max_attempts => 1);
  return true;
end
$$;
