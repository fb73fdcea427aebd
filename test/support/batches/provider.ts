import { setTimeout as wait } from 'node:timers/promises';
import { headerOf } from '../wire/http-message.ts';
import { errorObject } from '../upstream/heads.ts';
import { type BatchAnswer, usageOfLine } from './answers.ts';
import { createMessageBatches } from './message-provider.ts';

type File = { id: string; bytes: Buffer; purpose: string; filename: string; createdAt: number };
type Line = { custom_id: string; body: { model?: string; max_completion_tokens?: number } };
type Batch = {
  id: string;
  inputFile: string;
  endpoint: string;
  metadata: Record<string, string>;
  createdAt: number;
  endsAtMs: number;
  lines: Line[];
  state: 'in_progress' | 'completed' | 'cancelled' | 'expired';
  output: string | null;
  error: string | null;
  /** Requests for its output. */
  looks: number;
};

const SLOW_REPLY_MS = 4_000;

const PATH = /^\/v1\/(files|batches)(?:\/([^/]+)(?:\/(content|cancel))?)?$/;

export type Batches = {
  isPath(path: string): boolean;
  answer(request: {
    method: string;
    path: string;
    query: string;
    headers: [string, string][];
    body: Buffer;
  }): Promise<BatchAnswer>;
  /** How many batches were created. */
  readonly count: number;
};

/**
 * The files and batches of a scripted upstream, as OpenAI's API serves them. The metadata of a batch say what
 * goes wrong with it:
 *
 *     took_ms  how long it runs; absent: it ends at once
 *     fault    rejected      its creation is refused
 *              no_reply      it is created, and the connection is cut before the reply
 *              not_created   the connection is cut, and there is no batch
 *              slow_reply    it is created, and the reply comes some seconds later
 *              slow_output   its output comes in pieces over some seconds
 *              lost          the provider knows it no more
 *              errors        every third line is an error
 *              partial       the last line of the output is missing, though it counts as completed
 *              late_output   the output isn't there at first
 *              cut_output    the output breaks off in the middle at first
 *              shuffled      the output is in reverse order
 *              duplicates    each line of the output is there twice
 *              expired       it expires when half of its lines are done
 */
export function createBatches(): Batches {
  const messages = createMessageBatches();
  const files = new Map<string, File>();
  const batches = new Map<string, Batch>();
  let made = 0;

  const notFound: BatchAnswer = { status: 404, body: errorObject(404, null) };
  const ok = (body: object | Buffer): BatchAnswer => ({ status: 200, body });

  function keepFile(bytes: Buffer, purpose: string, filename: string): File {
    made += 1;
    const file = { id: `file-${made}x${bytes.length}`, bytes, purpose, filename, createdAt: seconds() };
    files.set(file.id, file);
    return file;
  }

  async function upload(headers: [string, string][], body: Buffer): Promise<BatchAnswer> {
    const type = headers.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? '';
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
    const file = form.get('file');
    const purpose = form.get('purpose');
    if (!(file instanceof Blob) || typeof purpose !== 'string')
      return { status: 400, body: errorObject(400, null) };
    const bytes = Buffer.from(await file.arrayBuffer());
    return ok(describeFile(keepFile(bytes, purpose, (file as { name?: string }).name ?? '')));
  }

  async function create(body: Buffer): Promise<BatchAnswer> {
    const asked = JSON.parse(body.toString()) as {
      input_file_id: string;
      endpoint: string;
      metadata?: Record<string, string>;
    };
    const metadata = asked.metadata ?? {};
    const file = files.get(asked.input_file_id);
    if (!file || metadata['fault'] === 'rejected') return { status: 400, body: errorObject(400, null) };
    if (metadata['fault'] === 'not_created') return 'cut';
    made += 1;
    const batch: Batch = {
      id: `batch_${made}`,
      inputFile: file.id,
      endpoint: asked.endpoint,
      metadata,
      createdAt: seconds(),
      endsAtMs: Date.now() + Number(metadata['took_ms'] ?? 0),
      lines: file.bytes
        .toString()
        .split('\n')
        .filter((text) => text.trim() !== '')
        .map((text) => JSON.parse(text) as Line),
      state: 'in_progress',
      output: null,
      error: null,
      looks: 0,
    };
    batches.set(batch.id, batch);
    if (metadata['fault'] === 'no_reply') return 'cut';
    if (metadata['fault'] === 'slow_reply') await wait(SLOW_REPLY_MS);
    return ok(describe(batch, true));
  }

  /** Ends a batch that has run for long enough. */
  function advance(batch: Batch): void {
    if (batch.state !== 'in_progress' || Date.now() < batch.endsAtMs) return;
    if (batch.metadata['fault'] === 'expired') end(batch, 'expired', Math.floor(batch.lines.length / 2));
    else end(batch, 'completed', batch.lines.length);
  }

  function end(batch: Batch, state: Batch['state'], done: number): void {
    batch.state = state;
    const { fault } = batch.metadata;
    const output: string[] = [];
    const errors: string[] = [];
    batch.lines.forEach((line, number) => {
      if (number >= done) {
        const code = `batch_${state}`;
        errors.push(
          JSON.stringify({ ...idsOf(line, number), response: null, error: { code, message: code } }),
        );
      } else if (fault === 'errors' && number % 3 === 2)
        errors.push(outputLine(line, number, 400, errorObject(400, null)));
      else output.push(outputLine(line, number, 200, replyTo(batch, line, number)));
    });
    if (fault === 'partial') output.pop();
    if (fault === 'shuffled') output.reverse();
    const lines = fault === 'duplicates' ? output.flatMap((line) => [line, line]) : output;
    const keep = (all: string[], name: string): string | null =>
      all.length === 0 ? null : keepFile(Buffer.from(`${all.join('\n')}\n`), 'batch_output', name).id;
    batch.output = keep(lines, 'output.jsonl');
    batch.error = keep(errors, 'errors.jsonl');
  }

  function describe(batch: Batch, isNew = false): object {
    const done = batch.state === 'in_progress' ? 0 : batch.lines.length;
    const { fault } = batch.metadata;
    const half = Math.floor(batch.lines.length / 2);
    const completed =
      fault === 'errors' ? done - Math.floor(done / 3) : batch.state === 'completed' ? done : done && half;
    return {
      id: batch.id,
      object: 'batch',
      endpoint: batch.endpoint,
      errors: null,
      input_file_id: batch.inputFile,
      completion_window: '24h',
      status: isNew ? 'validating' : batch.state,
      output_file_id: batch.output,
      error_file_id: batch.error,
      created_at: batch.createdAt,
      request_counts: { total: batch.lines.length, completed, failed: done - completed },
      metadata: batch.metadata,
    };
  }

  function content(file: File): BatchAnswer {
    const batch = [...batches.values()].find(({ output }) => output === file.id);
    const fault = batch?.metadata['fault'];
    if (batch) batch.looks += 1;
    if (fault === 'late_output' && batch && batch.looks <= 2) return notFound;
    if (fault === 'cut_output' && batch && batch.looks <= 1)
      return { status: 200, body: file.bytes, cutAfter: Math.floor(file.bytes.length / 2) };
    return { status: 200, body: file.bytes, ...(fault === 'slow_output' ? { isSlow: true } : {}) };
  }

  return {
    isPath: (path) => PATH.test(path) || messages.isPath(path),
    get count() {
      return batches.size + messages.count;
    },
    async answer({ method, path, query, headers, body }) {
      if (messages.isPath(path))
        return messages.answer({ method, path, body, host: headerOf({ headers }, 'host') ?? '' });
      const [, kind, id, part] = PATH.exec(path) ?? [];
      if (kind === 'files') {
        if (id === undefined)
          return method === 'POST' ? upload(headers, body) : ok({ object: 'list', data: [] });
        const file = files.get(decodeURIComponent(id));
        if (!file) return notFound;
        if (method === 'DELETE') files.delete(file.id);
        if (method === 'DELETE') return ok({ id: file.id, object: 'file', deleted: true });
        return part === 'content' ? content(file) : ok(describeFile(file));
      }
      if (id === undefined && method === 'POST') return create(body);
      if (id === undefined) {
        const after = new URLSearchParams(query).get('after');
        const all = [...batches.values()].toReversed();
        const from = after === null ? 0 : all.findIndex((batch) => batch.id === after) + 1;
        const data = all.slice(from, from + 20).map((batch) => describe(batch));
        return ok({ object: 'list', data, has_more: from + 20 < all.length });
      }
      const batch = batches.get(decodeURIComponent(id));
      if (!batch || batch.metadata['fault'] === 'lost') return notFound;
      advance(batch);
      if (part === 'cancel' && batch.state === 'in_progress')
        end(batch, 'cancelled', Math.floor(batch.lines.length / 2));
      return ok(describe(batch));
    },
  };
}

const seconds = (): number => Math.floor(Date.now() / 1_000);

const describeFile = ({ id, bytes, purpose, filename, createdAt }: File): object => ({
  ...{
    id,
    object: 'file',
    bytes: bytes.length,
    created_at: createdAt,
    filename,
    purpose,
    status: 'processed',
  },
});

const idsOf = ({ custom_id }: Line, number: number): object => ({ id: `batch_req_${number}`, custom_id });

const outputLine = (line: Line, number: number, status_code: number, body: object): string =>
  JSON.stringify({
    ...idsOf(line, number),
    response: { status_code, request_id: `req_line_${number}`, body },
    error: null,
  });

function replyTo({ endpoint }: Batch, { body }: Line, number: number): object {
  const { prompt, completion } = usageOfLine(number);
  const model = body.model ?? '';
  if (endpoint === '/v1/embeddings')
    return {
      object: 'list',
      model,
      data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
      usage: { prompt_tokens: prompt, total_tokens: prompt },
    };
  return {
    id: `chatcmpl-line-${number}`,
    object: 'chat.completion',
    created: seconds(),
    model,
    choices: [
      { index: 0, message: { role: 'assistant', content: `reply ${number}` }, finish_reason: 'stop' },
    ],
    usage: {
      prompt_tokens: prompt,
      completion_tokens: completion,
      total_tokens: prompt + completion,
    },
  };
}
