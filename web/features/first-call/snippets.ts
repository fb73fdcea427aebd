/** Example code for the first request. The tests run each snippet or parse it as its program does. Pure. */
import {
  CLIENTS,
  rootOf,
  settingsText,
  setupOf,
  shellLines,
  shownPath,
} from '#server/contract/client-setup.ts';
import { shellWord } from '#server/contract/shell-word.ts';
import { curlOf } from '../../lib/format/curl.ts';

/** The values inserted into a snippet. */
export type Filling = {
  /** Ends in `/v1`. */
  baseUrl: string;
  model: string;
  /** Null inserts a placeholder. */
  secret: string | null;
};

export type Snippet = {
  id: string;
  /** The tab's label. */
  name: string;
  /** One line of instructions. */
  use: string;
  text: string;
};

export const PLACEHOLDER = 'YOUR_API_KEY';
export const PROMPT = 'Say hello to Daybook in one sentence.';

/** A JSON string, which is valid in Python, TypeScript, TOML and YAML as well. */
const quoted = (text: string): string => JSON.stringify(text);
const keyOf = ({ secret }: Filling): string => secret ?? PLACEHOLDER;

export function curlSnippet(filling: Filling): Snippet {
  const { baseUrl, model } = filling;
  return {
    id: 'curl',
    name: 'curl',
    use: 'Run in a terminal',
    text: curlOf({ baseUrl, secret: keyOf(filling), model, prompt: PROMPT }),
  };
}

export function pythonSnippet(filling: Filling): Snippet {
  return {
    id: 'python',
    name: 'Python',
    use: 'Install: pip install openai',
    text: `from openai import OpenAI

client = OpenAI(
    base_url=${quoted(filling.baseUrl)},
    api_key=${quoted(keyOf(filling))},
)
stream = client.chat.completions.create(
    model=${quoted(filling.model)},
    messages=[{"role": "user", "content": ${quoted(PROMPT)}}],
    stream=True,
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()`,
  };
}

export function typescriptSnippet(filling: Filling): Snippet {
  return {
    id: 'typescript',
    name: 'TypeScript',
    use: 'Install: npm install openai',
    text: `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: ${quoted(filling.baseUrl)},
  apiKey: ${quoted(keyOf(filling))},
});
const stream = await client.chat.completions.create({
  model: ${quoted(filling.model)},
  messages: [{ role: "user", content: ${quoted(PROMPT)} }],
  stream: true,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}
process.stdout.write("\\n");`,
  };
}

/** The configuration of a coding agent: a settings file, commands, or both. */
export type AgentSnippet = {
  id: string;
  name: string;
  parts: readonly Pick<Snippet, 'use' | 'text'>[];
  note: string | null;
};

/** Configuration of coding agents, and the environment variables that other clients read. */
export function agentSnippets(filling: Filling): AgentSnippet[] {
  const { baseUrl, model } = filling;
  const agents = CLIENTS.map((id): AgentSnippet => {
    const setup = setupOf(id, filling);
    const { name, file, note } = setup;
    const shell = { use: 'Run in a terminal', text: shellLines(setup, keyOf(filling)) };
    return {
      id,
      name,
      note,
      parts:
        file === null ? [shell] : [{ use: `Add to ${shownPath(file)}`, text: settingsText(file) }, shell],
    };
  });
  const environment = [
    `export OPENAI_BASE_URL=${shellWord(baseUrl)}`,
    `export OPENAI_API_KEY=${shellWord(keyOf(filling))}`,
    `export OPENAI_MODEL=${shellWord(model)}`,
  ].join('\n');
  return [
    ...agents,
    {
      id: 'environment',
      name: 'Environment',
      note: null,
      parts: [{ use: 'Read by the OpenAI SDKs and other clients', text: environment }],
    },
  ];
}

/** Instructions for a coding agent. Without the secret, because the prompt is sent to a model. */
export function agentPrompt({ baseUrl, model }: Omit<Filling, 'secret'>): string {
  return [
    'Send this project’s LLM requests through our relay, Daybook.',
    '',
    `- OpenAI-compatible base URL: ${baseUrl} (chat completions, completions, embeddings and responses).`,
    `- Anthropic-compatible base URL: ${rootOf(baseUrl)} (messages).`,
    `- Gemini-compatible base URL: ${rootOf(baseUrl)} (generateContent).`,
    `- Model: ${model}. GET ${baseUrl}/models lists the available models.`,
    '- Key: read it from the environment variable DAYBOOK_API_KEY and send it as',
    '  "Authorization: Bearer <key>". Never write it to code, committed files, logs or your replies.',
    '- Use the provider’s SDK if the language has one: set its base URL and key, and change nothing else.',
    '- Errors have the shape {"error":{"message","type","param","code"},"request_id"}.',
    '- Do not retry 400, 401, 403, 404 and 413. Do not retry a 429 with "x-should-retry: false": the quota',
    '  is exhausted. For any other 429 wait for Retry-After. Use exponential backoff for 5xx.',
    '- A streamed reply without finish_reason, or with an error event, is incomplete.',
    '',
    'Then send one request and show me the reply and its x-request-id header.',
  ].join('\n');
}
