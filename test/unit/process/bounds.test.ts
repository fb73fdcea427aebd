import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { assertIncreasing } from '#db/assert-increasing.ts';

const ROOT = path.join(import.meta.dirname, '../../..');

/** Every `bounds.ts` of the program. */
const FILES = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*bounds.ts'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((name) => /^(db|server|worker)\/(.*\/)?bounds\.ts$/.test(name));

describe('relations between bounds', () => {
  it('accepts ascending values', () => {
    expect(() => assertIncreasing({ A: 1, B: 2, C: 2.5 }, 'why')).not.toThrow();
  });

  it.each([
    ['descending', { HEARTBEAT_MS: 6_000, DEAD_AFTER_MS: 5_000 }],
    ['equal', { HEARTBEAT_MS: 5_000, DEAD_AFTER_MS: 5_000 }],
    ['NaN', { HEARTBEAT_MS: 5_000, DEAD_AFTER_MS: NaN }],
  ])('rejects %s values, naming both and the reason', (_, bounds) => {
    expect(() => assertIncreasing(bounds, 'A running process would be declared dead.')).toThrow(
      `Bounds contradict each other: DEAD_AFTER_MS (${bounds.DEAD_AFTER_MS}) must be greater than ` +
        `HEARTBEAT_MS (${bounds.HEARTBEAT_MS}). A running process would be declared dead.`,
    );
  });

  it('finds the bounds of every folder', () => {
    expect(FILES.length).toBeGreaterThanOrEqual(10);
  });

  it.each(FILES)('hold in %s', async (name) => {
    await expect(import(path.join(ROOT, name))).resolves.toBeDefined();
  });

  it('stop the start of the server when one is violated', () => {
    const { status, stderr, stdout } = spawnSync(
      process.execPath,
      ['--import', HEARTBEATS_TOO_RARE, path.join(ROOT, 'server/main.ts')],
      { cwd: ROOT, encoding: 'utf8', env: { PATH: process.env['PATH'] ?? '' } },
    );
    expect(stdout).toBe('');
    expect(stderr).toContain(
      'Bounds contradict each other: DEAD_AFTER_MS (5000) must be greater than WATCH_GAP_MAX_MS (18000).',
    );
    expect(status).toBe(1);
  });
});

/** Loads db/bounds.ts with a heartbeat each nine seconds. */
const HEARTBEATS_TOO_RARE = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.endsWith('/db/bounds.ts')) return loaded;
      const source = String(loaded.source).replace('HEARTBEAT_MS = 1_000', 'HEARTBEAT_MS = 9_000');
      return { ...loaded, source };
    },
  });`)}`;
