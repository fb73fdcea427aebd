import { spawnSync } from 'node:child_process';
import path from 'node:path';

/** Compiles the Java clients below test/clients/install, where there are Java and Maven. */
const directory = path.join(import.meta.dirname, 'install/node_modules/.java');
const built = spawnSync(
  'mvn',
  ['-q', '-B', 'compile', 'dependency:build-classpath', `-Dmdep.outputFile=${directory}/classpath`],
  { cwd: path.join(import.meta.dirname, 'java'), stdio: ['ignore', 'ignore', 'inherit'] },
);
if (built.status !== 0) console.warn('The Java clients are skipped: they need Java and Maven.');
