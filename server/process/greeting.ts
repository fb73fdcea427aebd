import type { FirstKeyOffer } from '#server/process/first-key.ts';
import type { Served } from '#server/process/server.ts';
import type { SetupOffer } from '#server/sign-in/setup.ts';

/** What a start has to report to the operator. */
export type Greeting = Pick<Served, 'baseUrl' | 'models'> & {
  firstKey: FirstKeyOffer;
  setup: SetupOffer | null;
  /** Whether a person reads it, on a terminal. Otherwise it names files and contains no secret. */
  isShown: boolean;
};

/** The message printed when the server is ready; on the first start with a key and a first call. */
export function greet({ baseUrl, firstKey, models, setup, isShown }: Greeting): string {
  const lines = [`Daybook is ready. Base URL for clients: ${baseUrl}`];
  if (models.length > 0) lines.push(`Upstreams: ${models.join('; ')}`);
  if (setup !== null) lines.push('', ...setupLines(setup, isShown));
  if (firstKey !== null) lines.push('', ...keyLines(firstKey, baseUrl));
  return `${lines.join('\n')}\n`;
}

function setupLines({ link, file }: SetupOffer, isShown: boolean): string[] {
  if (isShown && link !== null)
    return [
      'Open this link to become the administrator. It works once and expires in an hour:',
      '',
      `  ${link}`,
    ];
  if (file !== null)
    return [
      'Open the link in this file to become the administrator. It works once and expires in an hour:',
      '',
      `  ${file}`,
    ];
  return ['There is no administrator yet. Print a link to become one: daybook setup-link'];
}

function keyLines(firstKey: Exclude<FirstKeyOffer, null>, baseUrl: string): string[] {
  if (firstKey === 'unplaced')
    return [
      'No API key was created: standard output is not a terminal, and DAYBOOK_DATA is not writable.',
      'Create one: daybook account create NAME, then daybook key create --account NAME',
    ];
  const { account, secret, file } = firstKey;
  const body = '{"model":"daybook-demo","messages":[{"role":"user","content":"Hello, Daybook"}]}';
  const shown =
    file === null
      ? [
          `The account "${account}" has its first key. It is shown this once; store it safely:`,
          '',
          `  ${secret}`,
        ]
      : [
          `The account "${account}" has its first key, in this file. Store it safely and delete the file:`,
          '',
          `  ${file}`,
        ];
  const header =
    file === null ? `'Authorization: Bearer ${secret}'` : `"Authorization: Bearer $(cat '${file}')"`;
  return [
    ...shown,
    '',
    'Try it:',
    '',
    `  curl ${baseUrl}/chat/completions \\`,
    `    -H ${header} \\`,
    `    -H 'Content-Type: application/json' \\`,
    `    -d '${body}'`,
    '',
  ];
}
