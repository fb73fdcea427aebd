import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { CLIENTS, setupOf } from '#server/contract/client-setup.ts';
import { commandLine } from '../support/servers/command-line.ts';

/** `daybook setup`, in a home directory of its own. It needs neither a server nor a database. */

let home: string;
beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'daybook-setup-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

const { daybook, json, text } = commandLine(() => ({ HOME: home }));
const TO = ['--base-url', 'https://relay.example', '--model', 'gpt-5'];
const setup = (client: string, ...args: string[]) => text('setup', client, ...TO, '--write', ...args);

async function given(name: string, content: string): Promise<string> {
  const file = path.join(home, name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, content);
  return file;
}
const contentOf = (name: string): Promise<string> => readFile(path.join(home, name), 'utf8');

/** What somebody has, of each format, with comments and an order of their own. */
const BEFORE = {
  codex: [
    '.codex/config.toml',
    [
      '# mine',
      'model = "gpt-4" # until spring',
      'approval_policy = "never"',
      '',
      '# trusted',
      '[projects."/src/tide"]',
      'trust_level = "trusted"',
      '',
    ].join('\n'),
    ['# mine', '# until spring', '# trusted', 'approval_policy = "never"'],
  ],
  opencode: [
    '.config/opencode/opencode.jsonc',
    '{\n\t// mine\n\t"theme": "tide",\n\t"provider": { "other": { "npm": "x" } }, /* kept */\n}\n',
    ['// mine', '/* kept */', '"npm": "x"'],
  ],
  qwen: [
    '.qwen/settings.json',
    '{\n  "modelProviders": { "openai": [{ "id": "mine", "baseUrl": "https://else.example" }] }\n}\n',
    ['"id": "mine"'],
  ],
  aider: ['.aider.conf.yml', '# mine\ndark-mode: true # at night\nmodel: sonnet\n', ['# mine', '# at night']],
  continue: [
    '.continue/config.yaml',
    'name: Mine\nversion: 1.0.0\nschema: v1\nmodels:\n  # the first\n  - name: a\n    provider: ollama\n',
    ['# the first', 'provider: ollama'],
  ],
} as const;
type Known = keyof typeof BEFORE;
const KNOWN = Object.keys(BEFORE) as Known[];

describe('a settings file that exists', () => {
  test.each(KNOWN)('keeps its other settings and comments: %s', async (client) => {
    const [name, before, kept] = BEFORE[client];
    await given(name, before);
    await setup(client);
    const after = await contentOf(name);
    for (const each of kept) expect(after).toContain(each);
    expect(after).toContain('https://relay.example/v1');
    expect(await contentOf(`${name}.before-daybook`)).toBe(before);
  });

  test.each(KNOWN)('is what it was after --undo, to the byte: %s', async (client) => {
    const [name, before] = BEFORE[client];
    await given(name, before);
    await setup(client);
    await setup(client, '--model', 'gpt-5-mini');
    expect(await contentOf(name)).not.toContain('"gpt-5"');
    await text('setup', client, '--undo');
    expect(await contentOf(name)).toBe(before);
    expect(await readdir(path.dirname(path.join(home, name)), { withFileTypes: true })).toHaveLength(1);
  });

  test('keeps what was changed after setup, when it is undone', async () => {
    const [name, before] = BEFORE.codex;
    await given(name, before);
    await setup('codex');
    await writeFile(
      path.join(home, name),
      `${await contentOf(name)}\n[projects."/new"]\ntrust_level = "trusted"\n`,
    );
    await text('setup', 'codex', '--undo');
    expect(parseToml(await contentOf(name))).toEqual({
      ...parseToml(before),
      projects: { '/src/tide': { trust_level: 'trusted' }, '/new': { trust_level: 'trusted' } },
    });

    await setup('opencode');
    const settings = JSON.parse(await contentOf('.config/opencode/opencode.json')) as object;
    await given('.config/opencode/opencode.json', JSON.stringify({ ...settings, theme: 'tide' }));
    await text('setup', 'opencode', '--undo');
    expect(JSON.parse(await contentOf('.config/opencode/opencode.json'))).toEqual({ theme: 'tide' });
  });

  test.each([
    ['codex', '.codex/config.toml', 'model = "a'],
    ['claude', '.claude/settings.json', '{"env": '],
    ['claude', '.claude/settings.json', '[]'],
    ['aider', '.aider.conf.yml', 'a: [1\nb: 2'],
    // Valid, but of forms that a line can't be put into.
    ['codex', '.codex/config.toml', 'model_providers = { daybook = { name = "x" } }'],
    ['codex', '.codex/config.toml', 'model = """\nmany\n[lines]\n"""'],
  ])('is left as it is where it can’t be read or edited: %s %s %j', async (client, name, content) => {
    await given(name, content);
    const { code, stderr } = await daybook('setup', client, ...TO, '--write');
    expect([code, stderr]).toEqual([1, expect.stringContaining('was not changed') as string]);
    expect(await contentOf(name)).toBe(content);
    expect(await readdir(path.dirname(path.join(home, name)))).toHaveLength(1);
  });

  test('is readable by its owner alone afterwards, and a symbolic link stays one', async () => {
    const file = await given('dotfiles/claude.json', '{}');
    await chmod(file, 0o644);
    await mkdir(path.join(home, '.claude'));
    await symlink(file, path.join(home, '.claude/settings.json'));
    await setup('claude');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readFile(file, 'utf8')).toContain('ANTHROPIC_BASE_URL');
    for (const name of await readdir(path.join(home, '.claude')))
      expect((await stat(path.join(home, '.claude', name))).mode & 0o777).toBe(0o600);
  });
});

describe('a settings file that doesn’t exist', () => {
  const written = CLIENTS.filter((id) => setupOf(id, { baseUrl: '', model: '' }).file !== null);

  test.each(written)('is created for its owner alone, and removed by --undo: %s', async (client) => {
    const { file } = await json<{ file: string }>('setup', client, ...TO, '--write');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const content = await readFile(file, 'utf8');
    const parse = { '.json': JSON.parse, '.toml': parseToml }[path.extname(file)] ?? parseYaml;
    expect((parse as (text: string) => unknown)(content)).toBeTypeOf('object');
    await text('setup', client, '--undo');
    expect(await readdir(path.dirname(file))).not.toContain(path.basename(file));
    expect((await daybook('setup', client, '--undo')).stderr).toContain('Nothing to undo');
  });

  test('is where the client’s own variable says', async () => {
    const other = commandLine(() => ({ HOME: home, CODEX_HOME: path.join(home, 'elsewhere') }));
    const { file } = await other.json<{ file: string }>('setup', 'codex', ...TO);
    expect(file).toBe(path.join(home, 'elsewhere/config.toml'));
  });
});

test.each(CLIENTS)('without --write it prints, and writes nothing: %s', async (client) => {
  const printed = await text('setup', client, ...TO);
  expect(printed).toContain('YOUR_API_KEY');
  expect(printed).toMatch(/https:\/\/relay\.example/);
  expect(await readdir(home)).toEqual([]);
});

test('the address is that of this server unless another is given', async () => {
  const here = commandLine(() => ({ HOME: home, PUBLIC_URL: 'https://daybook.example' }));
  expect(await here.text('setup', 'aider', '--model', 'm')).toContain('"https://daybook.example/v1"');
  expect(await text('setup', 'aider', '--model', 'm')).toContain('"http://127.0.0.1:4000/v1"');
});

test.each([
  [['setup', 'codex', '--write'], 1, 'Name a model'],
  [['setup', 'codex', '--model', 'm', '--base-url', 'relay.example'], 1, 'is not an address'],
  [['setup', 'cline', ...TO, '--write'], 1, 'writes its settings itself'],
  [['setup', 'emacs', ...TO], 64, 'Allowed choices are'],
])('what can’t be done is said, with what to do: %j', async (args, exitCode, message) => {
  const { code, stderr } = await daybook(...args);
  expect([code, stderr]).toEqual([exitCode, expect.stringContaining(message) as string]);
});
