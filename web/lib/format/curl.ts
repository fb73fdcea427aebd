import { shellWord } from '#server/contract/shell-word.ts';

/** Example curl commands. Pure. */

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
