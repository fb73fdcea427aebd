import { Client } from 'pg';
import { archive } from '#db/archive/archive.ts';
import { externalStore } from '#db/postgres/connect.ts';

/**
 * Runs the archive in a process of its own, which kills itself right after one step to simulate a crash.
 * Arguments: the directory, the number of full partitions to keep, the step.
 */
const [directory = '', keep = '', fatalStep = ''] = process.argv.slice(2);
const store = externalStore(process.env['DATABASE_URL'] ?? '');

await archive({
  directory,
  keep: Number(keep),
  drop: true,
  async connect() {
    const client = new Client(store.config('owner'));
    await client.connect();
    return client;
  },
  onStep(step) {
    if (step === fatalStep) process.kill(process.pid, 'SIGKILL');
  },
});
