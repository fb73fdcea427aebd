import { startEmbedded } from '#db/postgres/embedded/embedded.ts';

/**
 * A process that runs an embedded PostgreSQL in the directory of its first argument, so that tests
 * have one to kill. Says `ready` when it serves, or ends with the reason; stops at the end of input.
 */
try {
  const store = await startEmbedded({ dataDir: process.argv[2] ?? '', log: () => undefined });
  process.stdout.write('ready\n');
  process.stdin.resume().once('end', () => void store.stop());
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 1;
}
