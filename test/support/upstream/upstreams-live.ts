import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { ModelTerms, UpstreamTerms } from '#db/events/upstream-events.ts';
import { commandLine } from '../servers/command-line.ts';
import type { TestDatabase } from '../database.ts';
import type { TestRelay } from '../relay.ts';

/** Upstreams and models as a file declares them. */
export type Declared = {
  upstreams?: Record<string, Partial<UpstreamTerms> & { credentials?: { label: string; secret: string }[] }>;
  models?: Record<
    string,
    | { targets: Partial<Extract<ModelTerms, { targets: unknown }>['targets'][number]>[] }
    | { alias_of: string }
  >;
};

/** The command line on the store of a relay that runs. */
export function commandsOf(
  { store, dataDir }: Pick<TestRelay, 'store' | 'dataDir'>,
  env: Record<string, string> = {},
): ReturnType<typeof commandLine> {
  return commandLine(() => ({ DAYBOOK_DATA: dataDir, DATABASE_URL: (store as TestDatabase).url, ...env }));
}

/**
 * Applies a file to a relay that runs, as its operator would; returns when its server knows the events.
 * Its credentials are opened a moment later. Scripted upstreams are on this machine, so `network` is
 * `private` unless it is given.
 * @param variables what `${…}` in the file stands for.
 */
export async function declare(
  relay: TestRelay,
  { upstreams = {}, models = {} }: Declared,
  variables: Record<string, string> = {},
): Promise<void> {
  const file = path.join(relay.dataDir, 'relay.yaml');
  const own = Object.entries(upstreams).map(([name, terms]) => [
    name,
    { provider: 'openai', network: 'private', ...terms },
  ]);
  // Any JSON is YAML.
  await writeFile(file, JSON.stringify({ upstreams: Object.fromEntries(own), models }));
  await commandsOf(relay, variables).text('apply', file, '--yes');
  await settled(relay);
}

/** Returns when the server has applied everything that has been changed until now. */
export async function settled(relay: TestRelay): Promise<void> {
  await relay.control(() => Promise.resolve());
}
