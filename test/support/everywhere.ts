import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import type { Client } from 'pg';

/** Finds a text wherever it may be stored: an erased value must be in none of these places. */

/** A text as it may stand in a file or a column: plain, in other encodings, and within Base64 of more. */
export function formsOf(text: string): string[] {
  const utf8 = Buffer.from(text);
  const base64 = [0, 1, 2].map((before) => {
    const padded = Buffer.concat([Buffer.alloc(before, 'x'), utf8]).toString('base64');
    // Without the digits that depend on the bytes around it.
    return padded.slice(before === 0 ? 0 : before + 1, Math.floor(((before + utf8.length) * 8) / 6));
  });
  const forms = [
    text,
    encodeURIComponent(text),
    utf8.toString('hex'),
    Buffer.from(text, 'utf16le').toString('latin1'),
    ...base64,
  ];
  return [...new Set(forms)];
}

/** Those of the forms of a text that are in another. */
export const formsIn = (within: string, text: string): string[] =>
  formsOf(text).filter((form) => within.toLowerCase().includes(form.toLowerCase()));

/**
 * The tables of a database that hold one of these texts in any form: those of all schemas, and of the catalog
 * those with samples of columns and with large objects.
 */
export async function tablesWith(superuser: Client, ...searched: readonly string[]): Promise<string[]> {
  const { rows } = await superuser.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'm') and (n.nspname !~ '^pg_|^information_schema$'
        or c.relname in ('pg_statistic', 'pg_largeobject', 'pg_seclabel', 'pg_description')) order by 1`,
  );
  // PostgreSQL shows bytes in hexadecimal.
  const forms = searched.flatMap(formsOf).filter((form) => !form.includes('\0'));
  const texts = forms.flatMap((form) => [form, Buffer.from(form).toString('hex')]);
  const found: string[] = [];
  for (const { name } of rows) {
    const { rows: hits } = await superuser.query(
      `select from ${name} t
        where exists (select from unnest($1::text[]) f where position(lower(f) in lower(t::text)) > 0)
        limit 1`,
      [texts],
    );
    if (hits.length > 0) found.push(name);
  }
  return found;
}

/** The files below a directory that hold a text in any form, compressed or not. */
export async function filesWith(directory: string, text: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const bytes = await readFile(path.join(entry.parentPath, entry.name));
    const contents = entry.name.endsWith('.zst') ? zstdDecompressSync(bytes) : bytes;
    if (formsIn(contents.toString('latin1'), text).length > 0) found.push(entry.name);
  }
  return found;
}
