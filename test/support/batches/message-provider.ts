import { messageErrorObject } from '../upstream/message-parts.ts';
import { type BatchAnswer, usageOfLine } from './answers.ts';

/**
 * The message batches of a scripted upstream, as Anthropic's API serves them. The `custom_id` of the first
 * request says what goes wrong:
 *
 *     runs-…        it runs until it is canceled
 *     rejected-…    its creation is refused
 *     overloaded-…  its creation is a 529
 *     no-reply-…    it is created, and the connection is cut before the reply
 *     errors-…      of five requests the second is invalid, the third fails and the fourth expires
 *     partial-…     its last result is missing, though it counts as succeeded
 *     cut-…         its results break off in the middle at first
 */
type Asked = { custom_id: string; params: { model: string } };
type Batch = {
  id: string;
  requests: Asked[];
  fault: string;
  createdAt: string;
  state: 'in_progress' | 'canceled' | 'ended';
  looks: number;
};
type Result = { type: string; [member: string]: unknown };

const PATH = /^\/v1\/messages\/batches(?:\/([^/]+)(?:\/(cancel|results))?)?$/;

export type MessageBatches = {
  isPath(path: string): boolean;
  answer(request: { method: string; path: string; body: Buffer; host: string }): BatchAnswer;
  readonly count: number;
};

export function createMessageBatches(): MessageBatches {
  const batches = new Map<string, Batch>();
  const notFound: BatchAnswer = { status: 404, body: messageErrorObject(404, null) };

  function create(body: Buffer): BatchAnswer {
    const { requests } = JSON.parse(body.toString()) as { requests: Asked[] };
    const [fault = ''] = /^[a-z]+/.exec(requests[0]?.custom_id ?? '') ?? [];
    if (fault === 'rejected') return { status: 400, body: messageErrorObject(400, null) };
    if (fault === 'overloaded') return { status: 529, body: messageErrorObject(529, null) };
    const id = `msgbatch_${String(batches.size + 1).padStart(4, '0')}`;
    const state = fault === 'runs' ? 'in_progress' : 'ended';
    const batch: Batch = { id, requests, fault, createdAt: new Date().toISOString(), state, looks: 0 };
    batches.set(id, batch);
    return fault === 'no' ? 'cut' : { status: 200, body: describe(batch, '', true) };
  }

  function resultOf(batch: Batch, { params }: Asked, number: number): Result {
    if (batch.state === 'canceled' && number > 0) return { type: 'canceled' };
    if (batch.fault === 'errors' && number === 1)
      return { type: 'errored', error: messageErrorObject(400, null) };
    if (batch.fault === 'errors' && number === 2)
      return { type: 'errored', error: messageErrorObject(500, null) };
    if (batch.fault === 'errors' && number === 3) return { type: 'expired' };
    const { prompt, completion } = usageOfLine(number);
    const message = {
      ...{ id: `msg_${batch.id}_${number}`, type: 'message', role: 'assistant', model: params.model },
      ...{
        content: [{ type: 'text', text: `reply ${number}` }],
        stop_reason: 'end_turn',
        stop_sequence: null,
      },
      usage: { input_tokens: prompt, output_tokens: completion, service_tier: 'batch' },
    };
    return { type: 'succeeded', message };
  }

  function describe(batch: Batch, host: string, isNew = false): object {
    const hasEnded = batch.state !== 'in_progress' && !isNew;
    const types = batch.requests.map((request, number) => resultOf(batch, request, number).type);
    const count = (type: string): number => (hasEnded ? types.filter((each) => each === type).length : 0);
    return {
      id: batch.id,
      type: 'message_batch',
      processing_status: hasEnded ? 'ended' : 'in_progress',
      request_counts: {
        processing: hasEnded ? 0 : types.length,
        ...{ succeeded: count('succeeded'), errored: count('errored') },
        ...{ canceled: count('canceled'), expired: count('expired') },
      },
      ended_at: hasEnded ? batch.createdAt : null,
      created_at: batch.createdAt,
      expires_at: batch.createdAt,
      archived_at: null,
      cancel_initiated_at: null,
      results_url: hasEnded ? `http://${host}/v1/messages/batches/${batch.id}/results` : null,
    };
  }

  function results(batch: Batch): BatchAnswer {
    batch.looks += 1;
    const lines = batch.requests.map((request, number) =>
      JSON.stringify({ custom_id: request.custom_id, result: resultOf(batch, request, number) }),
    );
    if (batch.fault === 'partial') lines.pop();
    const body = Buffer.from(`${lines.toReversed().join('\n')}\n`);
    const isCut = batch.fault === 'cut' && batch.looks === 1;
    return { status: 200, body, ...(isCut ? { cutAfter: Math.floor(body.length / 2) } : {}) };
  }

  return {
    isPath: (path) => PATH.test(path),
    get count() {
      return batches.size;
    },
    answer({ method, path, body, host }) {
      const [, id, part] = PATH.exec(path) ?? [];
      if (id === undefined)
        return method === 'POST' ? create(body) : { status: 200, body: { data: [], has_more: false } };
      const batch = batches.get(decodeURIComponent(id));
      if (!batch) return notFound;
      if (part === 'results') return batch.state === 'in_progress' ? notFound : results(batch);
      if (part === 'cancel' && batch.state === 'in_progress') batch.state = 'canceled';
      if (method !== 'DELETE') return { status: 200, body: describe(batch, host) };
      batches.delete(batch.id);
      return { status: 200, body: { id: batch.id, type: 'message_batch_deleted' } };
    },
  };
}
