import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { resolveByText } from '#db/module-resolver.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const urlOf = (name: string): string => pathToFileURL(path.join(ROOT, name)).href;
const readManifest = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(path.join(ROOT, name), 'utf8')) as Record<string, unknown>;

describe('imports', () => {
  const importer = urlOf('server/http/app.ts');

  it("are resolved as package.json's imports and relative paths say", () => {
    expect(readManifest('package.json')['imports']).toEqual({ '#db/*': './db/*', '#server/*': './server/*' });
    expect(['#db/log/read.ts', '#server/cli.ts', './respond.ts', '../main.ts'].map(resolveFrom)).toEqual(
      ['db/log/read.ts', 'server/cli.ts', 'server/http/respond.ts', 'server/main.ts'].map(urlOf),
    );
  });

  it('are left to Node otherwise', () => {
    const others = [
      'express',
      'node:fs',
      '#internal',
      '#other/a.ts',
      './data.json',
      './old.js',
      'file:///a.ts',
    ];
    expect(others.filter((specifier) => resolveFrom(specifier) !== null)).toEqual([]);
  });

  function resolveFrom(specifier: string): string | null {
    const found = resolveByText(specifier, importer);
    if (found) expect(found.format).toBe('module-typescript');
    return found?.url ?? null;
  }
});

describe.each(['kysely', 'zod'])('the package %s', (name) => {
  const directory = `node_modules/${name}`;

  it('has ES modules only, and each that another imports', () => {
    const manifests = globSync(`${directory}/**/package.json`, { cwd: ROOT });
    expect(manifests.map(readManifest).filter(({ type }) => type !== 'module')).toEqual([]);
    const modules = new Set(globSync(`${directory}/**/*.js`, { cwd: ROOT }).map(urlOf));
    const imported = [...modules].flatMap((importer) =>
      [
        ...readFileSync(new URL(importer), 'utf8').matchAll(/^(?:import|export)\b.* from ["'](\..*)["']/gm),
      ].map(([, specifier = '']) => resolveByText(specifier, importer)),
    );
    expect(imported.length).toBeGreaterThan(100);
    expect(imported.filter((found) => found?.format !== 'module' || !modules.has(found.url))).toEqual([]);
  });
});
