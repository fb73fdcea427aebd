import '#server/process/heap.ts';
import cluster from 'node:cluster';
import { keepCompiled } from '#db/compile-cache.ts';
import { registerModuleResolver } from '#db/module-resolver.ts';

/** `npm start`. */
// A terminal's Ctrl-C and a service manager signal all processes at once; only the primary acts on it.
// From the first moment on, since a child takes a while to load.
if (cluster.isWorker)
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
keepCompiled();
registerModuleResolver();
const { start } = await import('#server/process/start.ts');
await start();
