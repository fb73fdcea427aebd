import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT, targetOf } from '../../layout/source.ts';

const STATIC = /^(?:import|export)\s(?!type\b)[^;]*?from '([^']+)'/gm;
const DYNAMIC = /\bimport\('([^']+)'\)/g;
const TELEMETRY = /^(?:db\/telemetry|server\/telemetry|server\/tracing)\/|^worker\/metrics\.ts$/;
/** The configuration is read to know whether they are on. */
const CONFIGURATION = 'server/tracing/trace-config.ts';

/** All modules that a program loads sooner or later, but those of metrics and traces that it imports late. */
function loadedBy(entry: string): string[] {
  const loaded = new Set<string>();
  const waiting = [entry];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (loaded.has(name) || !name.endsWith('.ts') || !existsSync(path.join(ROOT, name))) continue;
    loaded.add(name);
    const importer = name;
    const text = readFileSync(path.join(ROOT, name), 'utf8');
    const found = (pattern: RegExp): string[] =>
      [...text.matchAll(pattern)].flatMap(([, specifier = '']) => targetOf(specifier, importer) ?? []);
    waiting.push(...found(STATIC), ...found(DYNAMIC).filter((target) => !TELEMETRY.test(target)));
  }
  return [...loaded];
}

test.each(['server/main.ts', 'worker/main.ts'])(
  'with metrics and traces off %s loads no module of them',
  (entry) => {
    const loaded = loadedBy(entry);
    expect(loaded.length).toBeGreaterThan(50);
    expect(loaded.filter((name) => TELEMETRY.test(name) && name !== CONFIGURATION)).toEqual([]);
  },
);
