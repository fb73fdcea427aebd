import { ModelName } from '#db/events/parts.ts';
import { ForbiddenAddress } from '#server/upstreams/connect.ts';
import type { BridgeConnection } from '#server/upstreams/bridge-connection.ts';
import { MODEL_LIST_BYTES_MAX } from '#server/upstreams/bounds.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { ModelListError, type ModelListFault } from '#server/upstreams/model-list-error.ts';

/** Why an upstream's list of models could not be read. No address is in it. */
export type ModelListProblem = {
  /** As the circuit breakers report it. */
  code: string;
  /** One line for the operator. */
  message: string;
  /** The upstream answers, and only a call shows whether calls pass. */
  isUnsure: boolean;
};

/** The models of an upstream, or why they could not be read: either of the two is there. */
export type ModelListResult =
  | { models: string[]; problem: null }
  | { models: null; problem: ModelListProblem };

/**
 * Requests an upstream's list of models with one credential.
 * @throws {ModelListError} where the reply is no such list; other errors where there is no reply.
 */
export async function fetchModelList(pool: UpstreamConnectionPool, timeoutMs: number): Promise<string[]> {
  const reply = (await pool.getModels(timeoutMs, MODEL_LIST_BYTES_MAX)) as ModelListReply | null;
  const names = Array.isArray(reply?.data)
    ? (reply.data as ({ id?: unknown } | null)[]).map((entry) => entry?.id)
    : geminiNames(reply?.models);
  if (!names) throw new ModelListError({ kind: 'not_a_list' });
  return names.filter((name): name is string => ModelName.safeParse(name).success);
}

type ModelListReply = { data?: unknown; models?: unknown };

/** Gemini's own API lists models by their resource names. */
function geminiNames(models: unknown): unknown[] | null {
  if (!Array.isArray(models)) return null;
  return (models as ({ name?: unknown } | null)[]).map((entry) =>
    typeof entry?.name === 'string' ? entry.name.replace(/^models\//, '') : null,
  );
}

/**
 * Requests an upstream's list of models with one credential. Of a package it only checks that it can be
 * loaded. Never throws.
 */
export async function listModels(pool: UpstreamConnectionPool, timeoutMs: number): Promise<ModelListResult> {
  try {
    if ('check' in pool)
      return { models: null, problem: await checkPackage(pool as BridgeConnection, timeoutMs) };
    return { models: await fetchModelList(pool, timeoutMs), problem: null };
  } catch (error) {
    return { models: null, problem: explainModelListError(error, timeoutMs) };
  }
}

async function checkPackage(connection: BridgeConnection, timeoutMs: number): Promise<ModelListProblem> {
  const late = Promise.withResolvers<string>();
  const timer = setTimeout(
    () => late.resolve(`The package was not loaded within ${timeoutMs / 1_000} s.`),
    timeoutMs,
  );
  try {
    const fault = await Promise.race([connection.check(), late.promise]);
    if (fault !== null) return failure('package', fault);
    return unsure(
      'package',
      'The package is installed and loads. Only a call shows whether the credential is valid.',
    );
  } finally {
    clearTimeout(timer);
  }
}

const failure = (code: string, message: string): ModelListProblem => ({ code, message, isUnsure: false });
const unsure = (code: string, message: string): ModelListProblem => ({ code, message, isUnsure: true });

/** Explains an error of {@link fetchModelList} by its type, or by its code of the network, TLS or HTTP. */
export function explainModelListError(error: unknown, timeoutMs: number): ModelListProblem {
  if (error instanceof ForbiddenAddress) return failure('address_refused', error.message);
  if (error instanceof ModelListError) return explainFault(error.fault);
  const { name = '', code: ownCode, cause } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  const code = ownCode ?? (cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  if (name === 'TimeoutError' || /TIMEOUT|ETIMEDOUT/.test(code))
    return failure('timed_out', `It did not answer within ${timeoutMs / 1_000} s.`);
  if (/ECONNRESET|EPIPE|UND_ERR_SOCKET/.test(code)) return failure('cut', 'It closed the connection early.');
  if (code.startsWith('HPE_'))
    return failure('unreadable', 'The server at its address does not use HTTP, or only over TLS.');
  return failure('unreachable', explainUnreachable(code));
}

function explainUnreachable(code: string): string {
  if (code === 'ECONNREFUSED') return 'Connection refused: no server listens at its address.';
  if (code === 'ENOTFOUND') return 'Its host name does not exist.';
  if (code === 'EAI_AGAIN') return 'Its host name could not be looked up. Check the DNS of this machine.';
  if (/^E(HOST|NET)(UNREACH|DOWN)$/.test(code)) return 'There is no route to its address from this machine.';
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH|EPROTO/.test(code))
    return 'It does not use TLS at this address. Should the address begin with http:// rather than https://?';
  if (/^(CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/.test(code))
    return `Its certificate is not trusted (${code.toLowerCase().replaceAll('_', ' ')}).`;
  return `It could not be reached${code === '' ? '' : ` (${code})`}.`;
}

function explainFault(fault: ModelListFault): ModelListProblem {
  switch (fault.kind) {
    case 'status':
      return explainStatus(fault.status);
    case 'not_json':
      return failure(
        'unreadable',
        'Its reply is not JSON, so the address may not be an API. Check its path, such as /v1 at the end.',
      );
    case 'not_a_list':
      return failure(
        'unreadable',
        'Its reply is not a list of models, so the address may be another API. ' +
          'Check its path, such as /v1 at the end.',
      );
    case 'too_large':
      return failure('unreadable', 'Its list of models is too large.');
    case 'not_supported':
      return unsure('package', 'A package has no list of models.');
  }
}

function explainStatus(status: number): ModelListProblem {
  const code = `status_${status}`;
  if (status === 401) return failure(code, 'It rejects the credential (401).');
  if (status === 403)
    return unsure(
      code,
      'It does not list its models for this credential (403). A restricted credential may be valid for ' +
        'calls all the same: only a call shows it.',
    );
  if (status === 404 || status === 405 || status === 501)
    return unsure(
      code,
      `It answers, but has no list of models at this address (${status}). If the address is right, only ` +
        'a call shows whether calls pass.',
    );
  if (status === 429) return failure(code, 'It answers that this credential is over its limit (429).');
  if (status < 400)
    return failure(
      code,
      `It redirects (${status}), and redirects are never followed. Use the address it redirects to.`,
    );
  return failure(
    code,
    status >= 500 ? `It answers with a server error (${status}).` : `It rejects the request (${status}).`,
  );
}
