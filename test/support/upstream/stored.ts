import { errorObject } from './heads.ts';
import type { Subject } from './parts.ts';
import { responseJson, responseSse } from './response-parts.ts';
import type { Script } from './script.ts';

/** The responses that a scripted upstream stores, as OpenAI's API serves them. */

export const RESPONSES = '/v1/responses';
const STORED = /^\/v1\/responses\/([^/]+)(?:\/(input_items|cancel))?$/;

export const isStoredPath = (path: string): boolean => STORED.test(path);

/** The events that have come already, and those that come with the end. */
type Streamed = { begun: readonly Buffer[]; rest: readonly Buffer[]; endsAtMs: number };
/** `response.created` and `response.in_progress`. */
const BEGUN_EVENTS = 2;

type Answer = { status: number; body: object };
type Response = { id: string; object: 'response'; status: string };
/** `endsAtMs`: until then it is in progress. A background response takes as long as its script's stream. */
type Kept = { response: Response; input: unknown; endsAtMs: number; events: readonly Buffer[] };

const CANCELLED = { status: 'cancelled', output: [], usage: null };
/** What `usage=broken` stands for in the background. */
const FAILED = { status: 'failed', error: { code: 'server_error', message: 'It failed.' }, usage: null };

export type Stored = {
  /** Stores what a script replies, unless it is asked not to. */
  keep(script: Script, subject: Subject): void;
  /** Answers a request for a stored response. */
  answer(method: string, path: string): Answer;
  /** The events of a re-attached stream, numbered from 0; null: no stream is asked for. */
  streamOf(path: string, query: string): Streamed | null;
};

export function createStored(): Stored {
  const responses = new Map<string, Kept>();

  function keep(script: Script, subject: Subject): void {
    const { background, store, input, ...asked } = subject.asked();
    if (store === false || script.status !== 200) return;
    const bytes = [...responseJson(script, { ...subject, asked: () => asked })].map(({ head }) => head);
    const response = JSON.parse(Buffer.concat(bytes).toString()) as Response;
    const events = [...responseSse(script, subject)].map(({ head }) => head);
    if (background !== true) return void responses.set(response.id, { response, input, endsAtMs: 0, events });
    const { how } = script.end;
    const tookMs = how === 'hang' ? Infinity : script.tokens * script.every;
    const ended = { ...response, background: true, ...(script.usage === 'broken' ? FAILED : {}) };
    responses.set(response.id, { response: ended, input, endsAtMs: Date.now() + tookMs, events });
  }

  /** A response as it is now. */
  const now = ({ response, endsAtMs }: Kept): object =>
    Date.now() < endsAtMs ? { ...response, status: 'in_progress', output: [], usage: null } : response;

  function answer(method: string, path: string): Answer {
    const [, id = '', part] = STORED.exec(path) ?? [];
    const kept = responses.get(decodeURIComponent(id));
    if (!kept) return { status: 404, body: errorObject(404, null) };
    const { response, input } = kept;
    if (method === 'GET' && part === undefined) return { status: 200, body: now(kept) };
    if (method === 'POST' && part === 'cancel') {
      if (Date.now() < kept.endsAtMs) {
        kept.response = { ...response, ...CANCELLED };
        kept.endsAtMs = 0;
      }
      return { status: 200, body: kept.response };
    }
    if (method === 'GET' && part === 'input_items') return { status: 200, body: itemList(response, input) };
    if (method === 'DELETE' && part === undefined) {
      responses.delete(response.id);
      return { status: 200, body: { id: response.id, object: 'response', deleted: true } };
    }
    return { status: 405, body: errorObject(405, null) };
  }

  function streamOf(path: string, query: string): Streamed | null {
    const [, id = '', part] = STORED.exec(path) ?? [];
    const kept = responses.get(decodeURIComponent(id));
    const parameters = new URLSearchParams(query);
    if (!kept || part !== undefined || parameters.get('stream') !== 'true') return null;
    const after = Number(parameters.get('starting_after') ?? -1);
    const asked = kept.events.slice(after + 1);
    const count = Math.max(0, BEGUN_EVENTS - after - 1);
    return { begun: asked.slice(0, count), rest: asked.slice(count), endsAtMs: kept.endsAtMs };
  }

  return { keep, answer, streamOf };
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
