/**
 * What people paste to make their first call: text in, text out. Each was run, or read as the
 * program reads it that it is for, by the tests. Pure.
 */
import { curlOf, shellWord } from '../../lib/curl.ts';

/** What a snippet is filled in with. */
export type Filling = {
  /** Ends in `/v1`. */
  baseUrl: string;
  model: string;
  /** Null: it is not on the screen, so a placeholder stands for it. */
  secret: string | null;
};

export type Snippet = {
  id: string;
  /** On its tab, or above it. */
  name: string;
  /** What to do with it, in a line. */
  use: string;
  text: string;
};

export const PLACEHOLDER = 'YOUR_API_KEY';
export const PROMPT = 'Say hello to Daybook in one sentence.';

/** As a string of JSON, which Python, TypeScript and YAML read alike. */
const quoted = (text: string): string => JSON.stringify(text);
const keyOf = ({ secret }: Filling): string => secret ?? PLACEHOLDER;

export function curlSnippet(filling: Filling): Snippet {
  const { baseUrl, model } = filling;
  return {
    id: 'curl',
    name: 'curl',
    use: 'Paste it into a terminal.',
    text: curlOf({ baseUrl, secret: keyOf(filling), model, prompt: PROMPT }),
  };
}

export function pythonSnippet(filling: Filling): Snippet {
  return {
    id: 'python',
    name: 'Python',
    use: 'First: pip install openai',
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
    use: 'First: npm install openai',
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

/** Coding agents that speak chat completions today, and the variables that others read. */
export function agentSnippets(filling: Filling): Snippet[] {
  const { baseUrl, model } = filling;
  const key = keyOf(filling);
  const opencode = {
    $schema: 'https://opencode.ai/config.json',
    provider: {
      daybook: {
        npm: '@ai-sdk/openai-compatible',
        name: 'Daybook',
        options: { baseURL: baseUrl, apiKey: key },
        models: { [model]: { name: model } },
      },
    },
    model: `daybook/${model}`,
  };
  return [
    {
      id: 'opencode',
      name: 'opencode',
      use: 'In ~/.config/opencode/opencode.json',
      text: JSON.stringify(opencode, null, 2),
    },
    {
      id: 'aider',
      name: 'aider',
      use: 'In the terminal where aider runs',
      text: [
        `export OPENAI_API_BASE=${shellWord(baseUrl)}`,
        `export OPENAI_API_KEY=${shellWord(key)}`,
        `aider --model ${shellWord(`openai/${model}`)}`,
      ].join('\n'),
    },
    {
      id: 'cline',
      name: 'Cline',
      use: 'In a terminal. In VS Code: API Provider "OpenAI Compatible", then the same base URL, key and model',
      text: [
        'cline auth -p openai-compatible \\',
        `  -b ${shellWord(baseUrl)} \\`,
        `  -k ${shellWord(key)} \\`,
        `  -m ${shellWord(model)}`,
      ].join('\n'),
    },
    {
      id: 'continue',
      name: 'Continue',
      use: 'In ~/.continue/config.yaml',
      text: [
        'name: Daybook',
        'version: 0.0.1',
        'schema: v1',
        'models:',
        `  - name: ${quoted(`${model} by Daybook`)}`,
        '    provider: openai',
        `    model: ${quoted(model)}`,
        `    apiBase: ${quoted(baseUrl)}`,
        `    apiKey: ${quoted(key)}`,
        '    roles: [chat, edit, apply]',
      ].join('\n'),
    },
    {
      id: 'environment',
      name: 'Variables',
      use: 'For the OpenAI SDKs, Qwen Code and others that read them',
      text: [
        `export OPENAI_BASE_URL=${shellWord(baseUrl)}`,
        `export OPENAI_API_KEY=${shellWord(key)}`,
        `export OPENAI_MODEL=${shellWord(model)}`,
      ].join('\n'),
    },
  ];
}

/**
 * What to tell an agent that works on somebody's code. Never with the secret: what an agent reads goes to a
 * model.
 */
export function agentPrompt({ baseUrl, model }: Omit<Filling, 'secret'>): string {
  return `Let this project make its calls of language models through our relay, Daybook. It speaks the OpenAI chat-completions API.

- Base URL: ${baseUrl} (the calls go to POST ${baseUrl}/chat/completions, streamed or not).
- Model: ${model}. GET ${baseUrl}/models lists the others.
- Key: read it from the environment variable DAYBOOK_API_KEY, and send it as "Authorization: Bearer <key>", with one space. Never write it into code, settings that are committed, logs or your replies.
- Use the OpenAI SDK of the language where there is one: set its base URL and key, and change nothing else. Use chat completions, not the Responses API.
- Errors have the shape {"error":{"message","type","param","code"},"request_id"}. Do not retry 400, 401, 403, 404 and 413. Do not retry a 429 with the header "x-should-retry: false": the quota is spent. Wait for Retry-After on another 429, and back off on 5xx.
- A streamed reply that ends without finish_reason, or with an error in it, is not complete.

Then make one call and show me the reply and its x-request-id header.`;
}
