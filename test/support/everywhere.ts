import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Client } from 'pg';

/** Finds a text wherever it may be stored: an erased value must be in none of these places. */

/** The tables of a database that hold a text, as text or in the bytes of a value. */
export async function tablesWith(superuser: Client, text: string): Promise<string[]> {
  const { rows } = await superuser.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'm') and n.nspname !~ '^pg_|^information_schema$' order by 1`,
  );
  const found: string[] = [];
  for (const { name } of rows) {
    const { rows: hits } = await superuser.query(
      `select from ${name} t where position($1 in t::text) > 0 or position($2 in t::text) > 0 limit 1`,
      [text, Buffer.from(text).toString('hex')],
    );
    if (hits.length > 0) found.push(name);
  }
  return found;
}

/** The files below a directory that hold a text, plain or in hexadecimal. */
export async function filesWith(directory: string, text: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    const bytes = await readFile(file);
    if (bytes.includes(text) || bytes.includes(Buffer.from(text).toString('hex'))) found.push(entry.name);
  }
  return found;
}
