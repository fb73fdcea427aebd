import { spawn } from 'node:child_process';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { readSecret } from '#server/cli/input.ts';
import { chooseServer } from '#server/cli/remote/choose-server.ts';
import { readLogin, removeLogin, writeLogin } from '#server/cli/remote/login-file.ts';
import { ManagementApi } from '#server/cli/remote/management-api.ts';
import { readConfig } from '#server/process/config.ts';

/** `daybook login`, `logout` and `open` */
export function loginCommands(program: Command): void {
  withJson(program.command('login').argument('<url>', 'the server, such as https://daybook.example.com'))
    .description(
      'log in to a server with a management key, read from a prompt, standard input or a file: commands ' +
        'with --server work there from then on',
    )
    .option('--file <file>', 'a file that contains only the management key')
    .action(async (url: string, { file }: { file?: string }, command: Command) => {
      const api = new ManagementApi({ server: url, key: '' });
      const key = (await readSecret(command, file)).trim();
      await new ManagementApi({ server: api.server, key }).checkKey();
      const stored = writeLogin(command.surroundings.env, { server: api.server, key });
      print(
        command,
        { server: api.server, file: stored },
        () => `Logged in to ${api.server}. The management key is in ${stored}, for you alone.`,
      );
    });

  withJson(program.command('logout'))
    .description('forget the server and its management key; the key stays valid until it is revoked')
    .action((_options: unknown, command: Command) => {
      const { env } = command.surroundings;
      const server = readLogin(env)?.server ?? null;
      removeLogin(env);
      print(command, { server }, () =>
        server === null ? 'There was no login.' : `Logged out of ${server}. Revoke the key if it leaked.`,
      );
    });

  withJson(program.command('open'))
    .description('open the dashboard of the server in a browser, and print its address')
    .option('--no-browser', 'only print the address')
    .action(({ browser }: { browser: boolean }, command: Command) => {
      const address = addressOf(command);
      if (browser) openBrowser(address);
      print(command, { address }, () => address);
    });
}

function addressOf(command: Command): string {
  const api = chooseServer(command);
  if (api) return `${api.server}/`;
  const { PORT, PUBLIC_URL } = readConfig(command.surroundings.env);
  return PUBLIC_URL ?? `http://127.0.0.1:${PORT}/`;
}

/** Whether there is a browser is the user's to see: the address is printed all the same. */
function openBrowser(address: string): void {
  const [program = '', ...args] =
    process.platform === 'darwin'
      ? ['open']
      : process.platform === 'win32'
        ? ['rundll32', 'url.dll,FileProtocolHandler']
        : ['xdg-open'];
  const child = spawn(program, [...args, address], { stdio: 'ignore', detached: true });
  child.once('error', () => undefined);
  child.unref();
}
