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
    // One more than there are cores, for the files that wait for deadlines. The processes of the run are
    // busy nearly all the time: more of them finish no earlier, and on a slow machine each is late.
    maxWorkers: availableParallelism() + 1,
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
