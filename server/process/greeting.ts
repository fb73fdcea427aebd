import type { RunningServer } from '#server/process/server.ts';

/** The message printed when the server is ready; on the first start with a key and a first call. */
export function greet({
  baseUrl,
  firstKey,
  models,
  setupLink,
}: Pick<RunningServer, 'baseUrl' | 'firstKey' | 'models' | 'setupLink'>): string {
  const lines = [`Daybook is ready. Base URL for clients: ${baseUrl}`];
  if (models.length > 0) lines.push(`Upstreams: ${models.join('; ')}`);
  if (setupLink !== null)
    lines.push(
      '',
      'Open this link to become the administrator. It works once and expires in an hour:',
      '',
      `  ${setupLink}`,
    );
  if (firstKey === null) return `${lines.join('\n')}\n`;
  const body = '{"model":"daybook-demo","messages":[{"role":"user","content":"Hello, Daybook"}]}';
  lines.push(
    '',
    `The account "${firstKey.account}" has its first key. It is shown this once; store it safely:`,
    '',
    `  ${firstKey.secret}`,
    '',
    'Try it:',
    '',
    `  curl ${baseUrl}/chat/completions \\`,
    `    -H 'Authorization: Bearer ${firstKey.secret}' \\`,
    `    -H 'Content-Type: application/json' \\`,
    `    -d '${body}'`,
    '',
  );
  return `${lines.join('\n')}\n`;
}
