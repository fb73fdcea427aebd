/** Example curl commands. Pure. */

/** Quotes text for a POSIX shell. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** @param baseUrl ends in `/v1`. */
export function curlOf({
  baseUrl,
  secret,
  model,
  prompt,
}: {
  baseUrl: string;
  secret: string;
  model: string;
  prompt: string;
}): string {
  const body = { model, stream: true, messages: [{ role: 'user', content: prompt }] };
  return [
    `curl -N ${shellWord(`${baseUrl}/chat/completions`)} \\`,
    `  -H ${shellWord(`Authorization: Bearer ${secret}`)} \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${shellWord(JSON.stringify(body))}`,
  ].join('\n');
}
