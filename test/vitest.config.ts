import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { keepCompiled } from '#db/compile-cache.ts';

// For the processes of the run too, and all that they start.
keepCompiled();

const UNIT = [
  'test/unit/**/*.test.ts',
  'test/layout/layout.test.ts',
  'test/layout/docs.test.ts',
  'test/layout/vendor-internals.test.ts',
];

/**
 * Two projects: `unit` needs nothing but the code, `store` gets a real PostgreSQL that is started
 * once for the whole run and only if one of its files runs.
 */
export default defineConfig({
  test: {
    pool: 'forks',
    // Three more than there are cores, because many files wait for deadlines: with two more, files took
    // 2,047 s of their workers' time, in which all processes of the run used about 870 s of CPU time.
    maxWorkers: availableParallelism() + 3,
    // A process of its own for each file would take a third of the whole run; files leave nothing behind that
    // others could see.
    isolate: false,
    // For hangs alone: a busy machine takes many times longer than a quiet one, which is no failure.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    projects: [
      {
        test: { name: 'unit', include: UNIT },
      },
      {
        test: {
          name: 'store',
          include: ['test/**/*.test.ts'],
          exclude: [...UNIT, '**/node_modules/**'],
          globalSetup: ['test/support/global-setup.ts'],
        },
      },
    ],
  },
});
