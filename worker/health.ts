import { hostname } from 'node:os';
import { DEAD_AFTER_MS } from '#db/bounds.ts';
import { attachStore } from '#db/postgres/store.ts';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';

/**
 * A health check for supervisors that can only run a command: exit code 0 if a worker of this host
 * has a recent heartbeat, else 1. A worker listens on no port.
 */
async function main(): Promise<boolean> {
  const client = await connectAs(await attachStore(readWorkerConfig(process.env)), 'worker');
  try {
    const { rowCount } = await client.query(
      `select from daybook.instance where starts_with(name, $1) and dead_at is null and closed_at is null
        and heartbeat_at > statement_timestamp() - $2 * interval '1 ms'`,
      [`worker ${hostname()} `, DEAD_AFTER_MS],
    );
    return (rowCount ?? 0) > 0;
  } finally {
    await closeClient(client);
  }
}

try {
  const isAlive = await main();
  process.stdout.write(isAlive ? 'alive\n' : 'no worker of this host has a heartbeat\n');
  process.exitCode = isAlive ? 0 : 1;
} catch (error) {
  process.stderr.write(`daybook worker: ${(error as Error).name}: the health check failed\n`);
  process.exitCode = 1;
}
