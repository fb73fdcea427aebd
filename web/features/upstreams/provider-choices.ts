import type { Dialect, ProviderName, UpstreamTerms } from '#db/events/upstream-events.ts';

/** Whom an upstream may be: what people choose first, and what the rest of the form begins with. Pure. */
export type ProviderChoice = {
  id: Dialect | 'anthropic' | 'bridge';
  name: string;
  group: (typeof GROUPS)[number];
  provider: ProviderName;
  /** Where it is, where the server does not know. */
  address?: string;
  /** What an address of it looks like, where it has none of its own. */
  example?: string;
  /** Names and patterns of its models, where nobody else has such; else an example of them. */
  models: readonly string[];
  /** In a list, where there is no room for the whole name. */
  short?: string;
};

export const GROUPS = ['Providers', 'On your own machines', 'Everything else'] as const;

const openai = (
  id: Dialect,
  name: string,
  group: ProviderChoice['group'],
  models: readonly string[],
  more: Pick<ProviderChoice, 'address' | 'example' | 'short'> = {},
): ProviderChoice => ({ id, name, group, provider: 'openai', models, ...more });

export const CHOICES: readonly ProviderChoice[] = [
  openai('openai', 'OpenAI', 'Providers', ['gpt-*', 'o*', 'text-embedding-*']),
  {
    id: 'anthropic',
    name: 'Anthropic',
    group: 'Providers',
    provider: 'anthropic',
    models: ['claude-*'],
    address: 'https://api.anthropic.com/v1',
  },
  openai('gemini', 'Google Gemini', 'Providers', ['gemini-*']),
  openai('azure', 'Azure OpenAI', 'Providers', ['gpt-*', 'o*'], {
    example: 'https://RESOURCE.openai.azure.com/openai/v1',
  }),
  openai('mistral', 'Mistral', 'Providers', ['mistral-*', 'codestral-*']),
  openai('groq', 'Groq', 'Providers', ['llama-*', 'openai/gpt-oss-*']),
  openai('deepseek', 'DeepSeek', 'Providers', ['deepseek-*']),
  openai('openrouter', 'OpenRouter', 'Providers', ['*/*']),
  openai('ollama', 'Ollama', 'On your own machines', ['llama3.2'], { address: 'http://127.0.0.1:11434/v1' }),
  openai('vllm', 'vLLM', 'On your own machines', ['qwen3*'], { address: 'http://127.0.0.1:8000/v1' }),
  openai('lmstudio', 'LM Studio', 'On your own machines', ['qwen3*'], {
    address: 'http://127.0.0.1:1234/v1',
  }),
  openai('other', 'Another that speaks OpenAI’s convention', 'Everything else', ['some-model'], {
    example: 'https://models.example.com/v1',
    short: 'OpenAI’s convention',
  }),
  {
    id: 'bridge',
    name: 'A package of the AI SDK (Bedrock, Cohere…)',
    group: 'Everything else',
    provider: 'bridge',
    models: ['anthropic.claude-*'],
    example: 'https://models.example.com',
  },
];

/** What a new one serves by name, unless people say otherwise. */
export const usualModels = ({ group, models }: ProviderChoice): string[] =>
  group === 'Providers' ? [...models] : [];

export const choiceOf = ({
  provider,
  dialect,
}: Pick<UpstreamTerms, 'provider' | 'dialect'>): ProviderChoice =>
  choiceNamed(provider === 'openai' ? (dialect ?? 'other') : provider);

export const choiceNamed = (id: string): ProviderChoice =>
  CHOICES.find((each) => each.id === id) ?? (CHOICES.at(-2) as ProviderChoice);

/** Whether an address looks like one that the internet does not lead to; the server judges. */
export const looksPrivate = (address: string): boolean =>
  /^https?:\/\/(localhost|127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|\[::1\]|\[f[cd]|[^./:]+(:|\/|$)|[^/:]+\.(local|internal|lan)(:|\/|$))/i.test(
    address,
  );
