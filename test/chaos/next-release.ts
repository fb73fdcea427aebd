import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * Makes a next release out of the sources as they are: a new column, changed functions, an argument more of
 * the append function, and two new event types, one of which must not be skipped.
 */

const ROOT = path.join(import.meta.dirname, '../..');
const VERSION = '1000.0.0';
/** The codes of its event types; see test/support/log/newer-event.ts. */
const TYPES = { flagged: 999, noted: 1999 };

const DROP_APPEND = `do $$
begin
  execute (select format('drop function %s', oid::regprocedure) from pg_proc
    where proname = 'append' and pronamespace = 'daybook'::regnamespace);
end
$$;
`;

/** A text of a file, and its replacement. */
type Edit = [file: string, from: string, to: string];
const EDITS: readonly Edit[] = [
  ['db/schema/tables/instances.sql', '  dead_at timestamptz,\n', '  dead_at timestamptz,\n  note text,\n'],
  [
    'db/schema/functions/instances/heartbeat.sql',
    'set heartbeat_at = clock_timestamp(),',
    "set heartbeat_at = clock_timestamp(), note = 'next',",
  ],
  [
    'db/schema/functions/log/append.sql',
    '_notifies boolean default true\n',
    '_notifies boolean default true, _novel text[] default null\n',
  ],
  [
    'db/events/events.ts',
    '  RequestAccepted,\n  RequestExtended,\n',
    `  Control.extend({ type: z.literal('key.flagged'), account: Id, key: Id }),
  Control.extend({ type: z.literal('novelty.noted') }),
  RequestAccepted,\n  RequestExtended,\n`,
  ],
  [
    'db/events/events.ts',
    "  'request.accepted': 100,\n",
    `  'key.flagged': ${TYPES.flagged},\n  'novelty.noted': ${TYPES.noted},\n  'request.accepted': 100,\n`,
  ],
  ['db/events/streams.ts', "case 'key.renamed':\n", "case 'key.renamed':\n    case 'key.flagged':\n"],
  [
    'server/read-model/read-model.ts',
    "case 'key.renamed':\n",
    "case 'key.renamed':\n      case 'key.flagged':\n",
  ],
];

/**
 * Writes the sources of the next release.
 * @param root an empty directory.
 * @throws {Error} if a text that it replaces is gone.
 */
export async function makeNextRelease(root: string): Promise<void> {
  for (const folder of ['db', 'server', 'worker'])
    await cp(path.join(ROOT, folder), path.join(root, folder), { recursive: true });
  await symlink(path.join(ROOT, 'node_modules'), path.join(root, 'node_modules'));
  const text = await readFile(path.join(ROOT, 'package.json'), 'utf8');
  const { version, ...rest } = JSON.parse(text) as { version: string };
  await writeFile(path.join(root, 'package.json'), JSON.stringify({ ...rest, version: VERSION }));
  const schema = path.join(root, 'db/schema');
  await cp(path.join(schema, 'snapshot.sql'), path.join(schema, `released/${version}.sql`));
  await writeFile(
    path.join(schema, 'migrations/0001_next.sql'),
    `alter table daybook.instance add column note text;\n${DROP_APPEND}`,
  );
  for (const [name, from, to] of EDITS) {
    const file = path.join(root, name);
    const source = await readFile(file, 'utf8');
    if (!source.includes(from)) throw new Error(`${name} lacks ${from}: adapt the next release`);
    await writeFile(file, source.replace(from, to));
  }
}
