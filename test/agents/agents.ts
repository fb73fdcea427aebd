import path from 'node:path';
import { type ClientId, type Setting, settingsText, setupOf } from '#server/contract/client-setup.ts';

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
  'qwen-settings': {
    ...qwen('/v1/chat/completions', 'openai', () => ({})),
    ...asSetUp('qwen', [], {
      QWEN_SANDBOX: 'false',
      QWEN_CODE_NO_RELAUNCH: 'true',
      QWEN_USAGE_STATISTICS_ENABLED: 'false',
    }),
    args: (prompt) => ['-p', prompt, '--approval-mode', 'yolo'],
  },
  codex: {
    route: '/v1/responses',
    args: (prompt) => [
      'exec',
      '--skip-git-repo-check',
      '--dangerously-bypass-approvals-and-sandbox',
      '-c',
      'check_for_update_on_startup=false',
      '-c',
      'analytics.enabled=false',
      prompt,
    ],
    ...asSetUp('codex'),
  },
  // Nothing but the address and the key is set: it uses a WebSocket then.
  'codex-websocket': {
    route: '/v1/responses',
    args: (prompt, { baseUrl, model }) => [
      'exec',
      '--skip-git-repo-check',
      '--dangerously-bypass-approvals-and-sandbox',
      '-c',
      `openai_base_url="${baseUrl}"`,
      '--model',
      model,
      '-c',
      'check_for_update_on_startup=false',
      '-c',
      'analytics.enabled=false',
      prompt,
    ],
    env: ({ key }) => ({ CODEX_API_KEY: key }),
  },
  claude: {
    route: '/v1/messages',
    args: (prompt) => ['-p', prompt, '--dangerously-skip-permissions'],
    ...asSetUp('claude', [], { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', IS_SANDBOX: '1' }),
  },
  // Its protocol is translated for every upstream that the model here has.
  gemini: {
    route: '/v1/chat/completions',
    isWithoutSession: true,
    args: (prompt) => ['-p', prompt, '--approval-mode', 'yolo', '--skip-trust'],
    ...asSetUp('gemini', [{ path: ['privacy', 'usageStatisticsEnabled'], value: false }], {
      GEMINI_CLI_NO_RELAUNCH: 'true',
    }),
  },
  opencode: {
    route: '/v1/chat/completions',
    args: (prompt) => ['run', prompt],
    ...asSetUp('opencode', [
      { path: ['autoupdate'], value: false },
      { path: ['share'], value: 'disabled' },
      { path: ['permission', 'bash'], value: 'allow' },
    ]),
  },
};

/** The settings and variables of `daybook setup`, and what the tests need besides. */
function asSetUp(
  client: ClientId,
  more: readonly Setting[] = [],
  variables: Record<string, string> = {},
): Pick<Agent, 'env' | 'files'> {
  return {
    env(place) {
      const setup = setupOf(client, place);
      return { ...Object.fromEntries(setup.variables), [setup.keyVariable]: place.key, ...variables };
    },
    files(place) {
      const { file } = setupOf(client, place);
      if (file === null) return {};
      const name = path.join(file.directory, file.names[0]);
      return { [name]: settingsText({ ...file, settings: [...file.settings, ...more] }) };
    },
  };
}
