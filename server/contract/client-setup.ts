import { shellWord } from '#server/contract/shell-word.ts';

/**
 * How coding agents are configured for this relay: for `daybook setup` and the First call page. The key is
 * always in an environment variable, never in a file. Pure.
 */

export const CLIENTS = [
  'claude',
  'codex',
  'gemini',
  'opencode',
  'qwen',
  'cline',
  'aider',
  'continue',
  'zed',
] as const;
export type ClientId = (typeof CLIENTS)[number];

/** The relay as a client reaches it; `baseUrl` ends in `/v1`. */
export type RelayAddress = { baseUrl: string; model: string };

/** A member of an object, or the element of a list whose `member` is `is`. */
export type Step = string | { member: string; is: string };
export type Value = string | number | boolean | readonly string[] | { readonly [name: string]: Value };
export type Setting = { path: readonly Step[]; value: Value };
export type Format = 'json' | 'toml' | 'yaml';

export type SettingsFile = {
  format: Format;
  /** Below the directory in `variable` if that is set, else below `directory` in the home directory. */
  variable?: string;
  directory: string;
  /** The first one that exists is used, or else the first one. */
  names: readonly [string, ...string[]];
  settings: readonly Setting[];
};

export type ClientSetup = {
  /** The name of the client. */
  name: string;
  /** Null where the client writes its settings itself. */
  file: SettingsFile | null;
  /** The variable that the client reads its key from. */
  keyVariable: string;
  /** Variables beside the key. */
  variables: readonly (readonly [name: string, value: string])[];
  /** Starts the client, or configures it where it has no file to write; null for editors. */
  command: string | null;
  /** What else to know, in one sentence. */
  note: string | null;
};

const KEY_VARIABLE = 'DAYBOOK_API_KEY';
/** Zed wants the context length of a model, which the relay doesn't know. */
const ZED_CONTEXT_TOKENS = 128_000;

/** The base URL for clients that append `/v1` or `/v1beta` themselves. */
export const rootOf = (baseUrl: string): string => baseUrl.replace(/\/v1$/, '');

/** The configuration of a client for a relay and a model. */
export function setupOf(client: ClientId, { baseUrl, model }: RelayAddress): ClientSetup {
  const plain = { keyVariable: KEY_VARIABLE, variables: [], note: null };
  switch (client) {
    case 'claude':
      return {
        ...plain,
        name: 'Claude Code',
        file: {
          format: 'json',
          variable: 'CLAUDE_CONFIG_DIR',
          directory: '.claude',
          names: ['settings.json'],
          settings: [
            { path: ['env', 'ANTHROPIC_BASE_URL'], value: rootOf(baseUrl) },
            { path: ['env', 'ANTHROPIC_MODEL'], value: model },
            // Titles and summaries, for which it would call a model that the relay may not have.
            { path: ['env', 'ANTHROPIC_DEFAULT_HAIKU_MODEL'], value: model },
          ],
        },
        keyVariable: 'ANTHROPIC_AUTH_TOKEN',
        command: 'claude',
      };
    case 'codex':
      return {
        ...plain,
        name: 'Codex',
        file: {
          format: 'toml',
          variable: 'CODEX_HOME',
          directory: '.codex',
          names: ['config.toml'],
          settings: [
            { path: ['model'], value: model },
            { path: ['model_provider'], value: 'daybook' },
            { path: ['model_providers', 'daybook', 'name'], value: 'Daybook' },
            { path: ['model_providers', 'daybook', 'base_url'], value: baseUrl },
            { path: ['model_providers', 'daybook', 'env_key'], value: KEY_VARIABLE },
            { path: ['model_providers', 'daybook', 'wire_api'], value: 'responses' },
          ],
        },
        command: 'codex',
      };
    case 'gemini':
      return {
        ...plain,
        name: 'Gemini CLI',
        file: {
          format: 'json',
          directory: '.gemini',
          names: ['settings.json'],
          settings: [
            { path: ['security', 'auth', 'selectedType'], value: 'gemini-api-key' },
            { path: ['model', 'name'], value: model },
          ],
        },
        keyVariable: 'GEMINI_API_KEY',
        variables: [['GOOGLE_GEMINI_BASE_URL', rootOf(baseUrl)]],
        command: 'gemini',
      };
    case 'opencode':
      return {
        ...plain,
        name: 'opencode',
        file: {
          format: 'json',
          variable: 'XDG_CONFIG_HOME',
          directory: '.config',
          names: ['opencode/opencode.json', 'opencode/opencode.jsonc'],
          settings: [
            { path: ['provider', 'daybook', 'npm'], value: '@ai-sdk/openai-compatible' },
            { path: ['provider', 'daybook', 'name'], value: 'Daybook' },
            { path: ['provider', 'daybook', 'options', 'baseURL'], value: baseUrl },
            { path: ['provider', 'daybook', 'options', 'apiKey'], value: `{env:${KEY_VARIABLE}}` },
            { path: ['provider', 'daybook', 'models', model], value: { name: model } },
            { path: ['model'], value: `daybook/${model}` },
          ],
        },
        command: 'opencode',
      };
    case 'qwen':
      return {
        ...plain,
        name: 'Qwen Code',
        file: {
          format: 'json',
          directory: '.qwen',
          names: ['settings.json'],
          settings: [
            {
              path: ['modelProviders', 'openai', { member: 'baseUrl', is: baseUrl }],
              value: { id: model, name: `${model} (Daybook)`, baseUrl, envKey: KEY_VARIABLE },
            },
            { path: ['security', 'auth', 'selectedType'], value: 'openai' },
            { path: ['model', 'name'], value: model },
          ],
        },
        command: 'qwen',
      };
    case 'cline':
      return {
        ...plain,
        name: 'Cline',
        file: null,
        command: [
          'cline auth -p openai-compatible \\',
          `  -b ${shellWord(baseUrl)} \\`,
          `  -k "$${KEY_VARIABLE}" \\`,
          `  -m ${shellWord(model)}`,
        ].join('\n'),
        note: 'In VS Code, choose the provider "OpenAI Compatible" and enter the same values.',
      };
    case 'aider':
      return {
        ...plain,
        name: 'aider',
        file: {
          format: 'yaml',
          directory: '',
          names: ['.aider.conf.yml'],
          settings: [
            { path: ['openai-api-base'], value: baseUrl },
            { path: ['model'], value: `openai/${model}` },
          ],
        },
        keyVariable: 'OPENAI_API_KEY',
        command: 'aider',
      };
    case 'continue':
      return {
        ...plain,
        name: 'Continue',
        file: {
          format: 'yaml',
          directory: '.continue',
          names: ['config.yaml'],
          settings: [
            { path: ['name'], value: 'Daybook' },
            { path: ['version'], value: '0.0.1' },
            { path: ['schema'], value: 'v1' },
            {
              path: ['models', { member: 'apiBase', is: baseUrl }],
              value: {
                name: `${model} (Daybook)`,
                provider: 'openai',
                model,
                apiBase: baseUrl,
                apiKey: `\${{ secrets.${KEY_VARIABLE} }}`,
                roles: ['chat', 'edit', 'apply'],
              },
            },
          ],
        },
        command: null,
        note: `In an editor, put ${KEY_VARIABLE}=… into ~/.continue/.env instead.`,
      };
    case 'zed':
      return {
        ...plain,
        name: 'Zed',
        file: {
          format: 'json',
          variable: 'XDG_CONFIG_HOME',
          directory: '.config',
          names: ['zed/settings.json'],
          settings: [
            { path: ['language_models', 'openai_compatible', 'Daybook', 'api_url'], value: baseUrl },
            {
              path: [
                'language_models',
                'openai_compatible',
                'Daybook',
                'available_models',
                { member: 'name', is: model },
              ],
              value: { name: model, display_name: model, max_tokens: ZED_CONTEXT_TOKENS },
            },
            { path: ['agent', 'default_model'], value: { provider: 'Daybook', model } },
          ],
        },
        command: null,
        note: 'Start Zed from this terminal, or enter the key in its settings under LLM Providers.',
      };
  }
}

/** The path of a file as people write it. */
export const shownPath = ({ directory, names }: SettingsFile): string =>
  `~/${directory === '' ? '' : `${directory}/`}${names[0]}`;

/** The lines for a shell: the variables, then the command. @param key the secret, or a placeholder. */
export function shellLines({ keyVariable, variables, command }: ClientSetup, key: string): string {
  const all = [...variables, [keyVariable, key] as const];
  return [
    ...all.map(([name, value]) => `export ${name}=${shellWord(value)}`),
    ...(command === null ? [] : [command]),
  ].join('\n');
}

/** The text of a file that has these settings alone. It ends without a line break. */
export function settingsText({ format, settings }: SettingsFile): string {
  const root = withSettings({}, settings) as Record<string, unknown>;
  switch (format) {
    case 'json':
      return JSON.stringify(root, null, 2);
    case 'toml':
      return tomlOf(root, '');
    case 'yaml':
      return yamlOf(root, '');
  }
}

/** A copy of parsed settings with these set; objects and lists on their paths are created. */
export function withSettings(root: unknown, settings: readonly Setting[]): unknown {
  return settings.reduce((whole, { path, value }) => withValue(whole, path, value), root);
}

function withValue(container: unknown, [step, ...rest]: readonly Step[], value: Value): unknown {
  if (step === undefined) return value;
  if (typeof step === 'string') {
    const before = isObject(container) ? container : {};
    return { ...before, [step]: withValue(before[step], rest, value) };
  }
  const list: unknown[] = Array.isArray(container) ? container : [];
  const index = indexOf(list, step);
  const element = withValue(list[index], rest, value);
  return index === list.length ? [...list, element] : list.with(index, element);
}

/** The index of a step's element; the length of the list if no element matches. */
export function indexOf(list: readonly unknown[], { member, is }: Exclude<Step, string>): number {
  const index = list.findIndex((each) => isObject(each) && each[member] === is);
  return index === -1 ? list.length : index;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Members first, then a table for each object in them. A JSON string is valid TOML. */
function tomlOf(members: Record<string, unknown>, table: string): string {
  const own = Object.entries(members).filter(([, value]) => !isObject(value));
  const lines = own.map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const header = table === '' || own.length === 0 ? [] : [`[${table}]`];
  const inner = Object.entries(members).flatMap(([name, value]) =>
    isObject(value) ? [tomlOf(value, table === '' ? name : `${table}.${name}`)] : [],
  );
  return [[...header, ...lines].join('\n'), ...inner].filter((text) => text !== '').join('\n\n');
}

/** A JSON string is valid YAML. */
function yamlOf(members: Record<string, unknown>, indent: string): string {
  return Object.entries(members)
    .map(([name, value]) => {
      if (isObject(value)) return `${indent}${name}:\n${yamlOf(value, `${indent}  `)}`;
      if (!Array.isArray(value) || !value.some(isObject)) return `${indent}${name}: ${scalar(value)}`;
      const elements = value
        .filter(isObject)
        .map((each) => yamlOf(each, `${indent}    `).slice(indent.length + 4));
      return `${indent}${name}:\n${elements.map((each) => `${indent}  - ${each}`).join('\n')}`;
    })
    .join('\n');
}

const scalar = (value: unknown): string =>
  Array.isArray(value) ? `[${value.join(', ')}]` : JSON.stringify(value);
