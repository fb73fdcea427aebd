-- Privileges of the roles: the complete list. Without an entry here a role has no access, so it starts with
-- revoking everything. `daybook_relay` serves, `daybook_worker` projects, `daybook_auditor` only reads.
--
-- No role but the owner may update or delete events of the log, and triggers stop the owner.

revoke all on all tables in schema daybook from public, daybook_relay, daybook_worker, daybook_auditor;
revoke all on all sequences in schema daybook from public, daybook_relay, daybook_worker, daybook_auditor;
revoke all on all functions in schema daybook from public, daybook_relay, daybook_worker, daybook_auditor;

revoke all on all tables in schema daybook_lock from public, daybook_relay, daybook_worker, daybook_auditor;

-- Locks. Auditors have no right on the schema, so they can't name its tables; functions of the owner take the
-- locks of the log and its partitions.
grant usage on schema daybook_lock to daybook_relay, daybook_worker;
grant update on daybook_lock.setup, daybook_lock.master_key, daybook_lock.backtest,
    daybook_lock.identity to daybook_relay;
grant update on daybook_lock.projecting, daybook_lock.rebuild, daybook_lock.checkpoint to daybook_worker;

grant usage on schema daybook to daybook_relay, daybook_worker, daybook_auditor;
grant usage on schema projection to daybook_relay, daybook_auditor;
grant usage, create on schema projection, projection_build to daybook_worker;

-- The log and its proofs: everyone reads. Functions write to the log.
-- Whether a server has this pepper is nothing for an auditor to try.
grant select (only_row, log_id, partition_size) on daybook.install to daybook_worker, daybook_auditor;
grant select on daybook.install to daybook_relay;
grant select on daybook.instance, daybook.log, daybook.log_batch, daybook.stream_head,
    daybook.log_partition, daybook.control_event, daybook.correction,
    daybook.log_node, daybook.checkpoint, daybook.cosignature
  to daybook_relay, daybook_worker, daybook_auditor;
grant insert on daybook.checkpoint to daybook_worker;
grant insert on daybook.log_node to daybook_worker;
grant insert on daybook.cosignature to daybook_relay;
grant execute on function daybook.head, daybook.first_position, daybook.is_attached,
    daybook.batch_end, daybook.lines, daybook.events, daybook.record_reading
  to daybook_relay, daybook_worker, daybook_auditor;
grant execute on function daybook.append, daybook.append_control, daybook.create_partitions
  to daybook_relay, daybook_worker;
grant execute on function daybook.forget_nodes, daybook.append_readings, daybook.thin_checkpoints
  to daybook_worker;
grant execute on function daybook.claim_pepper to daybook_relay;

-- Instances.
grant execute on function daybook.register_instance, daybook.heartbeat, daybook.retire_instance,
    daybook.fence_instance, daybook.recover_instance, daybook.request_recovery,
    daybook.end_outside_sessions, daybook.report_output
  to daybook_relay, daybook_worker;

-- Limits.
grant select on daybook.allowance, daybook.lease to daybook_relay, daybook_worker, daybook_auditor;
grant execute on function daybook.exchange, daybook.drop_ended_allowances, daybook.drop_ended_leases
  to daybook_relay, daybook_worker;
grant execute on function daybook.adjust_quotas, daybook.append_corrections to daybook_relay;
grant execute on function daybook.window_start to daybook_relay, daybook_worker, daybook_auditor;
grant execute on function daybook.subjects_of, daybook.is_uncharged to daybook_worker, daybook_auditor;

-- Projections. Their tables belong to the worker.
grant usage, select on sequence daybook.projector_epoch to daybook_worker;
grant select, insert, update, delete on daybook.projection, daybook.parked_event to daybook_worker;
grant select on daybook.projection, daybook.parked_event to daybook_relay, daybook_auditor;
grant execute on function daybook.create_projection to daybook_worker, daybook_auditor;
set local role daybook_worker;
alter default privileges in schema projection, projection_build
  grant select on tables to daybook_relay, daybook_auditor;
reset role;

-- Alerts and their destinations. The relay manages them: it writes a sealed target and never reads one.
grant select, insert, update, delete on daybook.alert_destination, daybook.alert, daybook.alert_delivery,
    daybook.alert_attempt, daybook.alert_look, daybook.queue_pool, daybook.job_status
  to daybook_worker;
grant select (id, kind, label, account, alerts, filter, allow_private, created_at, failures, failing_since,
      switched_off_at),
    insert (id, kind, label, sealed_target, account, alerts, filter, allow_private), delete
  on daybook.alert_destination to daybook_relay;
grant select on daybook.alert, daybook.alert_delivery, daybook.alert_attempt, daybook.job_status
  to daybook_relay;
grant execute on function daybook.queue_attempt, daybook.queue_delivery, daybook.raise_alert
  to daybook_worker;
grant execute on function daybook.test_destination to daybook_relay;

-- Sinks. The relay manages them: it writes a sealed configuration and never reads one.
grant select, update (position, delivered, delivered_at, failures, failing_since, fault, retry_at, holder,
      held_until, test_taken_at, tested_at, test_fault)
  on daybook.sink to daybook_worker;
grant select (id, name, kind, account, position, created_at, paused_at, delivered, delivered_at, failures,
      failing_since, fault, retry_at, holder, held_until, test_requested_at, test_taken_at, tested_at,
      test_fault),
    insert (id, name, kind, sealed_config, account, position), delete,
    update (sealed_config, position, paused_at, failures, failing_since, fault, retry_at, test_requested_at,
      test_taken_at, tested_at, test_fault)
  on daybook.sink to daybook_relay;

-- Stored objects. Auditors don't read them: an id lets its account read the object.
grant select, insert, update, delete on daybook.stored_object to daybook_relay;
grant select, delete on daybook.stored_object to daybook_worker;
grant select, update (ending, hold_tokens, hold_cost_nanousd, holder, taken_by, due_at)
  on daybook.background_response to daybook_relay;
grant execute on function daybook.begin_background, daybook.settle_background to daybook_relay;
grant select, update (id, output_file, error_file, holder, taken_by, ended_at, due_at)
  on daybook.batch to daybook_relay;
grant select on daybook.batch_line to daybook_relay;
grant execute on function daybook.accept_batch, daybook.settle_batch to daybook_relay;

-- Idempotency keys and the replies kept for them. The worker deletes those that are old, and reads none.
grant select, insert, update, delete on daybook.idempotency_key to daybook_relay;
grant select (request, created_at), delete on daybook.idempotency_key, daybook.idempotent_reply
  to daybook_worker;
grant select, insert, delete on daybook.idempotent_reply to daybook_relay;
grant execute on function daybook.resolve_idempotency_key to daybook_relay;

-- Members and secrets.
grant select, insert, update (password_hash, role, sealed_totp, sealed_totp_begun, totp_step), delete
  on daybook.member to daybook_relay;
grant select, insert (issuer, subject, provider, member), delete on daybook.identity to daybook_relay;
grant select, insert (id, key, token, expires_at, kept_until), delete on daybook.token_exchange
  to daybook_relay;
grant select, insert, delete on daybook.provider_secret to daybook_relay;
grant select, insert, update (seen_at), delete on daybook.session to daybook_relay;
grant select, insert, delete on daybook.link to daybook_relay;
grant select, insert, update, delete on daybook.attempt to daybook_relay;
-- Rows of rotations that are long over are deleted.
grant select, insert, update, delete on daybook.secret_use to daybook_relay;
grant select on daybook.secret_use to daybook_auditor;
-- A secret is never changed: a new secret is a new credential. Only the wrapping of its data key changes.
grant select, insert, delete, update (wrapped_key, master_key) on daybook.credential to daybook_relay;

-- Attribution. The worker and auditors have the pseudonyms of the log, and no readable values.
grant select, insert, update on daybook.attribution_key to daybook_relay;
grant select, insert, delete on daybook.attribution_value to daybook_relay;
grant select, insert on daybook.attribution_erased to daybook_relay;

-- Reconciliation. A report is never changed: its digest is in the log.
grant select, insert on daybook.reconciliation_report to daybook_relay;

-- Statements by email. The relay manages recipients; the worker sends.
grant select, insert (only_row, day, on_since), update (day, on_since) on daybook.statement_schedule
  to daybook_relay;
grant select, insert (account, email), delete on daybook.statement_recipient to daybook_relay;
grant select, insert (account, email, month, invoice, is_monthly), delete on daybook.statement_email
  to daybook_relay;
grant execute on function daybook.queue_statement_emails to daybook_relay;
grant select, update (planned) on daybook.statement_schedule to daybook_worker;
grant select on daybook.statement_recipient to daybook_worker;
grant select, insert (account, email, month, is_monthly), delete,
    update (state, ended_at, attempts, due_at, status, fault)
  on daybook.statement_email to daybook_worker;

-- Append-only also for the owner. Partitions get their own truncate trigger when they are attached, since
-- those are not inherited. Existing triggers are left alone: replacing one would block appends.
do $$
declare
  _table text;
  _events text;
begin
  for _table, _events in values
    ('log', 'update or delete'), ('log_batch', 'update or delete'), ('control_event', 'update or delete'),
    ('correction', 'update or delete'),
    -- Nodes of the tree may be deleted, see daybook.forget_nodes.
    ('log_node', 'update')
  loop
    if not exists (select from pg_trigger
        where tgrelid = ('daybook.' || _table)::regclass and tgname = 'append_only') then
      execute format('create trigger append_only before %s on daybook.%I
        for each row execute function daybook.refuse_change()', _events, _table);
      execute format('create trigger append_only_truncate before truncate on daybook.%I
        for each statement execute function daybook.refuse_change()', _table);
    end if;
  end loop;
end
$$;
