/** A first call to paste into a terminal. Pure. */

/** As one word of a POSIX shell, whatever is in it. */
const word = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

export function curlOf({ baseUrl, secret, model }: { baseUrl: string; secret: string; model: string }): string {
  return [
    `curl ${word(`${baseUrl}/chat/completions`)} \\`,
    `  -H ${word(`Authorization: Bearer ${secret}`)} \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${word(JSON.stringify({ model, messages: [{ role: 'user', content: 'Say hello.' }] }))}`,
  ].join('\n');
}
