import type { Dialect, ProviderName, UpstreamTerms } from '#db/events/upstream-events.ts';

/** Providers to choose from, with the form's defaults. Pure. */
export type ProviderChoice = {
  id: Dialect | 'anthropic' | 'generate-content' | 'bridge';
  name: string;
  group: (typeof GROUPS)[number];
  provider: ProviderName;
  /** The base URL, if the server doesn't know it. */
  address?: string;
  /** An example of a base URL, if there is no default. */
  example?: string;
  /** Default model patterns if they are unique to the provider, else examples. */
  models: readonly string[];
  /** A short name for lists. */
  short?: string;
};

export const GROUPS = ['Providers', 'Self-hosted', 'Other'] as const;

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
  {
    id: 'generate-content',
    name: 'Google Gemini (generateContent)',
    group: 'Providers',
    provider: 'gemini',
    models: ['gemini-*'],
    address: 'https://generativelanguage.googleapis.com/v1beta',
    short: 'Gemini',
  },
  openai('azure', 'Azure OpenAI', 'Providers', ['gpt-*', 'o*'], {
    example: 'https://RESOURCE.openai.azure.com/openai/v1',
  }),
  openai('mistral', 'Mistral', 'Providers', ['mistral-*', 'codestral-*']),
  openai('groq', 'Groq', 'Providers', ['llama-*', 'openai/gpt-oss-*']),
  openai('deepseek', 'DeepSeek', 'Providers', ['deepseek-*']),
  openai('openrouter', 'OpenRouter', 'Providers', ['*/*']),
  openai('ollama', 'Ollama', 'Self-hosted', ['llama3.2'], { address: 'http://127.0.0.1:11434/v1' }),
  openai('vllm', 'vLLM', 'Self-hosted', ['qwen3*'], { address: 'http://127.0.0.1:8000/v1' }),
  openai('lmstudio', 'LM Studio', 'Self-hosted', ['qwen3*'], {
    address: 'http://127.0.0.1:1234/v1',
  }),
  openai('other', 'OpenAI-compatible', 'Other', ['some-model'], {
    example: 'https://models.example.com/v1',
  }),
  {
    id: 'bridge',
    name: 'AI SDK package (Bedrock, Cohere…)',
    group: 'Other',
    provider: 'bridge',
    models: ['anthropic.claude-*'],
    example: 'https://models.example.com',
  },
];

/** Whether a choice is one of the OpenAI-compatible APIs. */
export const isDialect = (id: ProviderChoice['id']): id is Dialect =>
  id !== 'anthropic' && id !== 'generate-content' && id !== 'bridge';

/** The default models of a new upstream. */
export const defaultModels = ({ group, models }: ProviderChoice): string[] =>
  group === 'Providers' ? [...models] : [];

export const choiceOf = ({
  provider,
  dialect,
}: Pick<UpstreamTerms, 'provider' | 'dialect'>): ProviderChoice =>
  CHOICES.find((each) => provider !== 'openai' && each.provider === provider) ??
  choiceNamed(dialect ?? 'other');

export const choiceNamed = (id: string): ProviderChoice =>
  CHOICES.find((each) => each.id === id) ?? (CHOICES.at(-2) as ProviderChoice);

/** Whether an address looks private. The server decides. */
export const looksPrivate = (address: string): boolean => PRIVATE_HOSTS.some((host) => host.test(address));
const PRIVATE_HOSTS = [
  /^https?:\/\/(localhost|127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/i,
  /^https?:\/\/(\[::1\]|\[f[cd])/i,
  /^https?:\/\/[^./:]+(:|\/|$)/i,
  /^https?:\/\/[^/:]+\.(local|internal|lan)(:|\/|$)/i,
];
