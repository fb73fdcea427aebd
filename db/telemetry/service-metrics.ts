import type { Client, ClientBase } from 'pg';
import { readService } from '#db/instances/service-state.ts';
import { selectUnprojected } from '#db/projections/state.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { onlyRowOf } from '#db/schema/query.ts';
import { SERVICE_METRICS as M } from '#db/telemetry/service-catalogue.ts';
import { gauge, type Sample } from '#db/telemetry/definition.ts';
import { selectCoverage } from '#db/tlog/coverage.ts';

/**
 * Reads the metrics that the database knows, over one connection that is kept between scrapes. Scrapes at the
 * same time share one read.
 */
export class ServiceMetrics {
  readonly #connect: () => Promise<Client>;
  #client: Client | null = null;
  #reading: Promise<Sample[]> | null = null;

  /** @param connect opens a connection whose statements have a timeout. */
  constructor(connect: () => Promise<Client>) {
    this.#connect = connect;
  }

  /** Never throws: a database that does not reply is a metric. */
  read(): Promise<Sample[]> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async close(): Promise<void> {
    await this.#reading;
    await this.#disconnect();
  }

  async #read(): Promise<Sample[]> {
    try {
      this.#client ??= await this.#connect();
      return [gauge(M.storeUp, 1), ...(await readSamples(this.#client))];
    } catch {
      await this.#disconnect();
      return [gauge(M.storeUp, 0)];
    }
  }

  async #disconnect(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client) await closeClient(client);
  }
}

async function readSamples(client: ClientBase): Promise<Sample[]> {
  const { position, instances, projections, jobs, sinks } = await readService(client);
  const unprojected = await onlyRowOf(client, selectUnprojected());
  const { size, age_secs, uncovered_ms } = await onlyRowOf(client, selectCoverage());
  const count = (kind: string, state: string): number =>
    instances.filter((each) => each.kind === kind && each.state === state).length;
  return [
    gauge(M.head, position),
    ...['server', 'worker', 'other'].flatMap((kind) =>
      ['live', 'late'].map((state) => gauge(M.instances, count(kind, state), kind, state)),
    ),
    ...projections.map(({ projection, behind }) => gauge(M.projectionLag, behind, projection)),
    gauge(M.projectionLagSeconds, unprojected.ms / 1000),
    ...projections.map(({ projection, parked }) => gauge(M.parked, parked, projection)),
    ...projections.map(({ projection, state }) =>
      gauge(M.detached, state === 'detached' ? 1 : 0, projection),
    ),
    ...sinks.map(({ name, behind }) => gauge(M.sinkLag, behind, name)),
    ...sinks.map(({ name, behind_ms }) => gauge(M.sinkLagSeconds, behind_ms / 1000, name)),
    ...sinks.map(({ name, failures }) => gauge(M.sinkFailures, failures, name)),
    ...jobs.map(({ task, failures }) => gauge(M.jobFailures, failures, task)),
    ...(size === null ? [] : [gauge(M.checkpointPosition, size)]),
    ...(age_secs === null ? [] : [gauge(M.checkpointAge, age_secs)]),
    gauge(M.uncovered, Math.max(0, uncovered_ms ?? 0) / 1000),
  ];
}
