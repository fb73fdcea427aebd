import type { IncomingMessage } from 'node:http';
import { uuidv7 } from '#db/ids.ts';
import { authorizeModel } from '#server/access/authorize.ts';
import { identify } from '#server/access/identify.ts';
import { RequestDiagnostics } from '#server/diagnostics/request-diagnostics.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { literalOf } from '#server/protocols/literal.ts';
import { ResponsesReplyWriter } from '#server/protocols/responses/write-reply.ts';
import { handleCall } from '#server/relay/handle.ts';
import type { Relay } from '#server/relay/relay.ts';
import { type Reply, sendError } from '#server/relay/reply.ts';
import { RESPONSES } from '#server/relay/routes.ts';
import { findTargets } from '#server/upstreams/find-targets.ts';
import type { Conversation } from '#server/websocket/conversations.ts';
import { MESSAGE_ERRORS } from '#server/websocket/message-errors.ts';
import type { MessageReply } from '#server/websocket/message-reply.ts';

export type ResponseRun = {
  relay: Relay;
  /** The handshake of the connection. */
  request: IncomingMessage;
  response: MessageReply;
  conversation: Conversation;
  /** Called when the call is open, and holds the memory of its body. */
  onOpen(): void;
};

/** Carries out one `response.create`: a call like that of `POST /v1/responses`. Never rejects. */
export async function runResponse(run: ResponseRun): Promise<void> {
  const { relay, request, response, conversation, onOpen } = run;
  const { route } = RESPONSES;
  const requestId = uuidv7();
  const { requestLog, trustedProxies, observer } = relay;
  const diagnostics = new RequestDiagnostics(requestLog, request, {
    ...{ requestId, path: route, trustedProxies, observer },
  });
  const reply: Reply = { requestId, extraHeaders: [], errorFormat: MESSAGE_ERRORS, diagnostics };
  try {
    const body = await conversation.open();
    if (body instanceof ApiError) return sendError(request, response, reply, body);
    if (!conversation.message.isGenerated) return prepare(run, reply, body);
    await handleCall(
      relay,
      RESPONSES,
      request,
      response,
      reply,
      undefined,
      (_relay, _request, _response, open) => {
        onOpen();
        return open.holdBody(body.length) ?? { bytes: body, slab: null };
      },
    );
  } catch (error) {
    diagnostics.fault(error);
    if (response.headersSent) response.destroy();
    else sendError(request, response, reply, new ApiError('internal_error'));
  }
}

/**
 * `"generate": false` prepares a conversation for the next response and runs no model: it is answered here,
 * is not in the log, and is charged nothing.
 */
function prepare({ relay, request, response }: ResponseRun, reply: Reply, body: Buffer): void {
  const refuse = (refusal: ApiError): void => sendError(request, response, reply, refusal);
  const { parse, route } = RESPONSES;
  const key = identify(relay, request, route);
  if (key instanceof ApiError) return refuse(key);
  const parsed = parse(body);
  if (parsed instanceof ApiError) return refuse(parsed);
  const { table } = relay.upstreams;
  const model = table.resolve(parsed.model);
  const forbidden = authorizeModel(key, model, relay.readModel);
  if (forbidden) return refuse(forbidden);
  const targets = findTargets(table, model, route);
  if (targets instanceof ApiError) return refuse(targets);
  const writer = new ResponsesReplyWriter({
    request: JSON.parse(body.toString()) as Record<string, unknown>,
    customTools: new Set(),
    model: parsed.model,
    createdS: Math.floor(Date.now() / 1_000),
    isStreamed: true,
  });
  const id = reply.requestId.replaceAll('-', '');
  const started = writer.take({ type: 'start', id, model: literalOf(parsed.model) });
  const events = started + writer.end({ input: 0, cached: 0, output: 0, reasoning: 0 });
  response.writeHead(200, ['content-type', 'text/event-stream']);
  response.end(Buffer.from(events, 'latin1'));
}
