import type { ClientBase } from 'pg';
import { raiseAlerts, readRaised } from '#db/alerts/alert-log.ts';
import { sinkAlert, sinkTopic } from '#db/alerts/sink-alerts.ts';
import { readSinks } from '#db/spend/sink-status.ts';

/** Raises an alert for each sink that fails or lags behind the log, or has caught up. */
export async function watchSinks(client: ClientBase): Promise<void> {
  const sinks = await readSinks(client);
  const raised = await readRaised(client, sinks.map(sinkTopic));
  await raiseAlerts(
    client,
    sinks.map((sink) => sinkAlert(sink, raised.get(sinkTopic(sink)) ?? 0)).filter((alert) => alert !== null),
  );
}
