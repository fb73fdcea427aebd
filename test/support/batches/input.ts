import { createHash } from 'node:crypto';
import OpenAI, { toFile } from 'openai';

/** Input files of batches, and what a client of OpenAI's does with them. */

export type InputRequest = { id?: string; model?: string; body?: object; url?: string };

/** The lines of a file; each asks for a chat completion unless it says otherwise. */
export function inputOf(requests: readonly InputRequest[], model: string): string {
  const lines = requests.map(({ id, body, url = '/v1/chat/completions', ...own }, index) =>
    JSON.stringify({
      custom_id: id ?? `line-${index}`,
      method: 'POST',
      url,
      body: {
        model: own.model ?? model,
        ...(body ?? { messages: [{ role: 'user', content: `say ${index}` }], max_completion_tokens: 50 }),
      },
    }),
  );
  return `${lines.join('\n')}\n`;
}

/** So many alike. */
export const requestsOf = (count: number): InputRequest[] => Array.from({ length: count }, () => ({}));

export const clientOf = (baseURL: string, apiKey: string): OpenAI =>
  new OpenAI({ baseURL, apiKey, maxRetries: 0 });

export async function upload(client: OpenAI, text: string): Promise<OpenAI.FileObject> {
  return client.files.create({ file: await toFile(Buffer.from(text), 'in.jsonl'), purpose: 'batch' });
}

export function create(
  client: OpenAI,
  file: string,
  metadata: Record<string, string> = {},
  endpoint: OpenAI.BatchCreateParams['endpoint'] = '/v1/chat/completions',
): Promise<OpenAI.Batch> {
  return client.batches.create({ input_file_id: file, endpoint, completion_window: '24h', metadata });
}

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
