-- Queues the next attempt of a delivery. Deliveries share four queues, so receivers that do not answer take
-- at most four jobs of all workers together.
create or replace function daybook.queue_attempt(_delivery uuid, _destination text, _pause interval)
returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform graphile_worker.add_job('deliver_alert', json_build_object('delivery', _delivery),
    queue_name => 'alerts-' || (hashtext(_destination) & 3), run_at => clock_timestamp() + _pause,
    job_key => 'deliver-' || _delivery);
end
$$;
