import path from 'node:path';

/** Where an agent is sent, and what with. */
export type Place = { baseUrl: string; key: string; model: string; home: string };

/**
 * A coding agent from the npm registry: how it is pointed at a relay and told to do one thing without asking.
 */
export type Agent = {
  /** The route that it calls. */
  route: string;
  /** Whether its calls name no session, as it is run here; those of others name one, the same in each. */
  isWithoutSession?: true;
  /** Its program, where test/agents/install installs it; others are named when they are run. */
  program?: string;
  args(prompt: string, place: Place): string[];
  /** Beside PATH and HOME. */
  env(place: Place): Record<string, string>;
  /** Its settings, by their paths in its home. */
  files?(place: Place): Record<string, string>;
};

const QWEN = path.join(import.meta.dirname, 'install/node_modules/@qwen-code/qwen-code/cli-entry.js');

function qwen(route: string, authType: string, env: Agent['env']): Agent {
  return {
    route,
    // It names one only where its telemetry is on.
    isWithoutSession: true,
    program: QWEN,
    args: (prompt, { model }) => [
      '-p',
      prompt,
      '--bare',
      '--approval-mode',
      'yolo',
      '--auth-type',
      authType,
      '--model',
      model,
    ],
    env: (place) => ({
      ...env(place),
      QWEN_SANDBOX: 'false',
      QWEN_CODE_NO_RELAUNCH: 'true',
      QWEN_USAGE_STATISTICS_ENABLED: 'false',
    }),
  };
}

const openai = ({ baseUrl, key, model }: Place): Record<string, string> => ({
  OPENAI_BASE_URL: baseUrl,
  OPENAI_API_KEY: key,
  OPENAI_MODEL: model,
});
/** Clients of Anthropic's write the `/v1` themselves. */
const anthropicBase = (baseUrl: string): string => baseUrl.replace(/\/v1$/, '');

export const AGENTS: Readonly<Record<string, Agent>> = {
  qwen: qwen('/v1/chat/completions', 'openai', openai),
  'qwen-messages': qwen('/v1/messages', 'anthropic', ({ baseUrl, key, model }) => ({
    ANTHROPIC_BASE_URL: anthropicBase(baseUrl),
    ANTHROPIC_API_KEY: key,
    ANTHROPIC_MODEL: model,
  })),
  'qwen-responses': qwen('/v1/responses', 'openai-responses', openai),
  codex: {
    route: '/v1/responses',
    args: (prompt) => ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', prompt],
    env: ({ key, home }) => ({ DAYBOOK_KEY: key, CODEX_HOME: path.join(home, '.codex') }),
    files: ({ baseUrl, model }) => ({
      '.codex/config.toml': [
        `model = ${JSON.stringify(model)}`,
        'model_provider = "daybook"',
        'check_for_update_on_startup = false',
        '[analytics]',
        'enabled = false',
        '[model_providers.daybook]',
        'name = "Daybook"',
        `base_url = ${JSON.stringify(baseUrl)}`,
        'env_key = "DAYBOOK_KEY"',
        'wire_api = "responses"',
        '',
      ].join('\n'),
    }),
  },
  claude: {
    route: '/v1/messages',
    args: (prompt, { model }) => ['-p', prompt, '--model', model, '--dangerously-skip-permissions'],
    env: ({ baseUrl, key }) => ({
      ANTHROPIC_BASE_URL: anthropicBase(baseUrl),
      ANTHROPIC_API_KEY: key,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      IS_SANDBOX: '1',
    }),
  },
  opencode: {
    route: '/v1/chat/completions',
    args: (prompt, { model }) => ['run', '--model', `daybook/${model}`, prompt],
    env: ({ key, home }) => ({ DAYBOOK_KEY: key, XDG_CONFIG_HOME: path.join(home, '.config') }),
    files: ({ baseUrl, model }) => ({
      '.config/opencode/opencode.json': JSON.stringify({
        autoupdate: false,
        share: 'disabled',
        permission: { bash: 'allow' },
        provider: {
          daybook: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: baseUrl, apiKey: '{env:DAYBOOK_KEY}' },
            models: { [model]: {} },
          },
        },
      }),
    }),
  },
};
