import type { ClientConfig } from 'pg';

/** The DATABASE_URL of a session over a Unix socket, as an operator would write it. */
export async function databaseUrlOf({
  host = '',
  port,
  user,
  database,
  password,
}: ClientConfig): Promise<string> {
  const secret = typeof password === 'function' ? await password() : (password ?? '');
  const parameters = new URLSearchParams({ host, port: String(port) });
  return `postgres://${user}:${secret}@localhost/${database}?${parameters.toString()}`;
}
