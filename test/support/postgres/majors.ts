import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Binaries, findBinaries } from '#db/postgres/embedded/binaries.ts';

/** Where `npm run test:postgres` installs other versions of PostgreSQL. */
const INSTALLED = path.join(import.meta.dirname, '../../postgres/install/node_modules');

/** The module of an installed version, which has the paths of its programs. */
export const moduleOf = (major: number): string =>
  pathToFileURL(path.join(INSTALLED, `postgres-${major}`, 'dist/index.js')).href;

/** The programs of a version: those that `npm run test:postgres` installed, or Debian's; null without any. */
export async function findMajor(major: number): Promise<Binaries | null> {
  if (existsSync(path.join(INSTALLED, `postgres-${major}`))) return findBinaries(moduleOf(major));
  const folder = `/usr/lib/postgresql/${major}/bin`;
  if (!existsSync(path.join(folder, 'initdb'))) return null;
  return {
    postgres: path.join(folder, 'postgres'),
    initdb: path.join(folder, 'initdb'),
    major: String(major),
  };
}
