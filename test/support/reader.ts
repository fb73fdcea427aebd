import type { Usage } from '#server/relay/usage-report.ts';
import type { RequestPage, RequestDetail } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';

export type Answer<T> = { status: number; headers: Headers; text: string; json: T };
export type Refused = { error: { code: string; message: string; param: string | null } };

/** Somebody who reads the API with a key. */
export type ApiReader = {
  get<T = Refused>(path: string, headers?: Record<string, string>): Promise<Answer<T>>;
  list(query?: string): Promise<RequestPage>;
  story(request: string): Promise<RequestDetail>;
  usage(query?: string): Promise<Usage & UsageReport>;
};

export function readerWith(port: number, key: string): ApiReader {
  const get = async <T>(path: string, headers: Record<string, string> = {}): Promise<Answer<T>> => {
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { authorization: `Bearer ${key}`, ...headers },
    });
    const text = await reply.text();
    const isJson = reply.headers.get('content-type')?.startsWith('application/json') ?? false;
    return {
      status: reply.status,
      headers: reply.headers,
      text,
      json: (isJson ? JSON.parse(text) : null) as T,
    };
  };
  const good = async <T>(path: string): Promise<T> => {
    const answer = await get<T>(path);
    if (answer.status !== 200) throw new Error(`GET ${path} was answered ${answer.status}: ${answer.text}`);
    return answer.json;
  };
  return {
    get,
    list: (query = '') => good(`/v1/requests${query}`),
    story: (request) => good(`/v1/requests/${request}`),
    usage: (query = '') => good(`/v1/usage${query}`),
  };
}
