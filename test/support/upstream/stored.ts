import { errorObject } from './heads.ts';
import type { Subject } from './parts.ts';
import { responseJson } from './response-parts.ts';
import type { Script } from './script.ts';

/** The responses that a scripted upstream stores, as OpenAI's API serves them. */

export const RESPONSES = '/v1/responses';
const STORED = /^\/v1\/responses\/([^/]+)(?:\/(input_items|cancel))?$/;

export const isStoredPath = (path: string): boolean => STORED.test(path);

type Answer = { status: number; body: object };
type Response = { id: string; object: 'response'; status: string };
type Kept = { response: Response; input: unknown };

export type Stored = {
  /** Stores what a script replies, unless it is asked not to. */
  keep(script: Script, subject: Subject): void;
  /** Answers a request for a stored response. */
  answer(method: string, path: string): Answer;
};

export function createStored(): Stored {
  const responses = new Map<string, Kept>();

  function keep(script: Script, subject: Subject): void {
    const { store, input } = subject.asked();
    if (store === false || script.status !== 200) return;
    const bytes = [...responseJson(script, subject)].map(({ head }) => head);
    const response = JSON.parse(Buffer.concat(bytes).toString()) as Response;
    responses.set(response.id, { response, input });
  }

  function answer(method: string, path: string): Answer {
    const [, id = '', part] = STORED.exec(path) ?? [];
    const kept = responses.get(decodeURIComponent(id));
    if (!kept) return { status: 404, body: errorObject(404, null) };
    const { response, input } = kept;
    if (method === 'GET' && part === undefined) return { status: 200, body: response };
    if (method === 'GET' && part === 'input_items') return { status: 200, body: itemList(response, input) };
    if (method === 'DELETE' && part === undefined) {
      responses.delete(response.id);
      return { status: 200, body: { id: response.id, object: 'response', deleted: true } };
    }
    return { status: 405, body: errorObject(405, null) };
  }

  return { keep, answer };
}

function itemList({ id }: Response, input: unknown): object {
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  const item = {
    id: id.replace('resp_', 'msg_in_'),
    type: 'message',
    role: 'user',
    status: 'completed',
    content: [{ type: 'input_text', text }],
  };
  return { object: 'list', data: [item], first_id: item.id, last_id: item.id, has_more: false };
}
