import { randomUUID } from 'node:crypto';
import type { Dispatcher } from 'undici';
import { CHAT_COMPLETIONS } from '#db/limits/limits.ts';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';
import {
  type ModelCall,
  callOptionsOf,
  type ChatRequest,
  requestOf,
} from '#server/providers/bridge/call-options.ts';
import { Chunks } from '#server/providers/bridge/chunks.ts';
import { completionOf } from '#server/providers/bridge/completion.ts';
import { unsupportedBy, type ReplyName } from '#server/providers/bridge/openai-shapes.ts';
import { Exchange } from '#server/providers/bridge/exchange.ts';
import { errorInBand, mapError } from '#server/providers/bridge/errors.ts';
import type { LanguageModel, Warning } from '#server/providers/bridge/language-model.ts';
import { loadModels, type Models, PackageError } from '#server/providers/bridge/package.ts';
import { UnsupportedField } from '#server/providers/bridge/fields.ts';
import { checkAddresses } from '#server/providers/bridge/supported.ts';
import { boundedFetch, overWire, Wire } from '#server/providers/bridge/wire.ts';
import { GENERATED_ID_HEADER, REQUEST_ID_HEADERS } from '#server/wire/reply-facts.ts';
import { Redactor } from '#server/wire/redactor.ts';
import type { ProviderCall } from '#server/providers/provider.ts';

/** An upstream that is reached through an AI SDK package. */
export type Bridge = {
  /**
   * Carries a call out. The handler is called like that of an OpenAI-compatible upstream
   * would do it.
   */
  send(call: ProviderCall, handler: Dispatcher.DispatchHandler): void;
  /** Whether the package can be used: null, or one line for the operator that says what to do. */
  check(): Promise<string | null>;
  /** Resolves when the running calls have ended. */
  close(): Promise<void>;
  /** Ends them. */
  destroy(): Promise<void>;
};

export type BridgeOptions = {
  terms: Pick<UpstreamTerms, 'package' | 'base_url' | 'options'>;
  secret: string;
  /** Goes to no address that the operator has not allowed. */
  fetch: typeof globalThis.fetch;
};

/** Names in one header; more are omitted. */
const DROPPED_MAX = 32;

/**
 * Opens the way to a provider. Its package is loaded with the first call, and again as long as that fails.
 */
export function openBridge({ terms, secret, fetch }: BridgeOptions): Bridge {
  const redactor = new Redactor([secret], [URL.parse(terms.base_url ?? '')?.hostname ?? '']);
  const running = new Set<Exchange>();
  let loading: Promise<Models> | null = null;
  const models = (): Promise<Models> =>
    (loading ??= loadModels(terms, secret, boundedFetch(fetch)).catch((error: unknown) => {
      loading = null;
      throw error;
    }));

  async function carryOut(call: ProviderCall, request: ChatRequest, exchange: Exchange): Promise<void> {
    const model = (await models())(call.model);
    const asking = callOptionsOf(
      request,
      call.tokenLimit ?? call.parsed.completionLimit,
      model.specificationVersion,
    );
    await checkAddresses(asking.options.prompt, model);
    if (exchange.over) return;
    const name = {
      id: `chatcmpl-${randomUUID()}`,
      model: call.model,
      createdS: Math.floor(Date.now() / 1_000),
    };
    const wire = new Wire(call.parsed.sse, exchange.signal, () => exchange.lives());
    try {
      await overWire(wire, () =>
        (call.parsed.sse ? streamed : complete)({ model, asking, name, exchange, wire, redactor }),
      );
    } catch (error) {
      // A complete reply that could not be read has cost something, and is reported as one that was cut.
      if (wire.answered && !call.parsed.sse && mapError(error, redactor).kind === 'broken')
        exchange.head(200, headOf(false, asking, [], name, undefined));
      throw error;
    } finally {
      wire.close();
    }
  }

  const allEnded = async (): Promise<void> =>
    void (await Promise.all([...running].map(({ ended }) => ended)));

  return {
    send(call, handler) {
      const exchange = new Exchange(handler);
      if (exchange.over) return;
      // Read before this returns: the memory of the body is used again when the relay is done with it.
      const request = requestOf(call);
      const carried =
        call.route === CHAT_COMPLETIONS
          ? carryOut(call, request, exchange)
          : Promise.reject(new UnsupportedField('model', `This model does not know ${call.route}.`));
      // Whatever a package does, the process goes on.
      carried
        .catch((error: unknown) => reportError(error, exchange, redactor))
        .catch((error: unknown) =>
          exchange.abort(error instanceof Error ? error : new Error('the bridge failed')),
        );
      running.add(exchange);
      void exchange.ended.then(() => running.delete(exchange));
    },
    async check() {
      try {
        // Any model name: the package's specification version is the same for all.
        (await models())('model');
        return null;
      } catch (error) {
        return error instanceof PackageError ? error.message : null;
      }
    },
    close: allEnded,
    async destroy() {
      for (const exchange of running) exchange.abort(new Error('the upstream is closed'));
      await allEnded();
    },
  };
}

type Carrying = {
  model: LanguageModel;
  asking: ModelCall;
  name: ReplyName;
  exchange: Exchange;
  wire: Wire;
  redactor: Redactor;
};

async function complete({ model, asking, name, exchange, redactor }: Carrying): Promise<void> {
  const generated = await model.doGenerate({ ...asking.options, abortSignal: exchange.signal });
  await exchange.whileTaken();
  const { id, modelId, timestamp } = generated.response ?? {};
  const own = {
    id: id || name.id,
    model: modelId || name.model,
    createdS: timestamp ? Math.floor(timestamp.getTime() / 1_000) : name.createdS,
  };
  const completion = completionOf(generated, own);
  if (!completion) return refuse(exchange, 502, null, errorInBand(null, redactor));
  exchange.head(200, headOf(false, asking, generated.warnings, name, generated.response?.headers));
  exchange.data(JSON.stringify(completion));
  exchange.end();
}

/** One part at a time, and none while the handler takes nothing: the provider is made to wait, too. */
async function streamed({ model, asking, name, exchange, wire, redactor }: Carrying): Promise<void> {
  const { stream, response } = await model.doStream({ ...asking.options, abortSignal: exchange.signal });
  const reader = stream.getReader();
  const chunks = new Chunks(name);
  let warnings: Warning[] = [];
  try {
    for (;;) {
      const { done, value: part } = await reader.read();
      await exchange.whileTaken();
      if (exchange.over) return;
      if (done) break;
      wire.understood();
      if (part.type === 'stream-start') warnings = part.warnings;
      if (part.type === 'error') {
        // Before the first event the whole call has failed, and may be tried elsewhere.
        if (!exchange.begun) throw part.error;
        exchange.data(`data: ${JSON.stringify({ error: errorInBand(part.error, redactor) })}\n\n`);
        return exchange.end();
      }
      const events = chunks.take(part);
      if (events !== '' && !exchange.begun)
        exchange.head(200, headOf(true, asking, warnings, name, response?.headers));
      if (events !== '') exchange.data(events);
      if (chunks.failed) break;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  if (!exchange.begun)
    return chunks.failed
      ? refuse(exchange, 502, null, errorInBand(null, redactor))
      : exchange.fail(new Error('the provider ended its reply before it began'));
  if (chunks.failed) exchange.data(`data: ${JSON.stringify({ error: errorInBand(null, redactor) })}\n\n`);
  exchange.end();
}

function headOf(
  sse: boolean,
  { unsupported }: ModelCall,
  warnings: readonly Warning[],
  { id }: ReplyName,
  headers: Record<string, string> = {},
): Record<string, string> {
  const names = [...new Set([...unsupported, ...unsupportedBy(warnings)])]
    .filter((name) => /^[\w.-]{1,64}$/.test(name))
    .slice(0, DROPPED_MAX);
  return {
    'content-type': sse ? 'text/event-stream' : 'application/json',
    [GENERATED_ID_HEADER]: id,
    ...Object.fromEntries(
      REQUEST_ID_HEADERS.flatMap((name) => (headers[name] ? [[name, headers[name]]] : [])),
    ),
    ...(names.length > 0 ? { 'x-daybook-unsupported': names.join(', ') } : {}),
  };
}

function reportError(error: unknown, exchange: Exchange, redactor: Redactor): void {
  const fault = mapError(error, redactor);
  if (fault.kind === 'broken' || exchange.begun)
    return exchange.fail(fault.kind === 'broken' ? fault.error : new Error(fault.error.message));
  refuse(exchange, fault.status, fault.retryAfter, fault.error);
}

function refuse(exchange: Exchange, status: number, retryAfter: string | null, error: object): void {
  exchange.head(status, {
    'content-type': 'application/json',
    ...(retryAfter === null ? {} : { 'retry-after': retryAfter }),
  });
  exchange.data(JSON.stringify({ error }));
  exchange.end();
}
