import { ForbiddenAddress } from '#server/upstreams/connect.ts';
import type { BridgeConnection } from '#server/upstreams/bridge-connection.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import { listedModels } from '#server/upstreams/parse-model-list.ts';

/**
 * Why an upstream's models could not be had: `word` as the health of upstreams has it, `line` for people. No
 * address is in it.
 */
export type Problem = {
  word: string;
  line: string;
  /** It answers all the same, and whether calls pass is only seen by calling. */ isUnsure: boolean;
};

/** What an upstream says when it is asked for its models: either of the two is there. */
export type Answer = { models: string[]; problem: null } | { models: null; problem: Problem };

/**
 * Asks an upstream for its models with one credential. Of a package only whether it can be used. Never
 * throws.
 */
export async function listModels(line: UpstreamConnectionPool, timeoutMs: number): Promise<Answer> {
  try {
    if ('check' in line)
      return { models: null, problem: await checkPackage(line as BridgeConnection, timeoutMs) };
    return { models: await listedModels(line, timeoutMs), problem: null };
  } catch (error) {
    return { models: null, problem: explain(error, timeoutMs) };
  }
}

async function checkPackage(line: BridgeConnection, timeoutMs: number): Promise<Problem> {
  const late = Promise.withResolvers<string>();
  const timer = setTimeout(
    () => late.resolve(`The package was not loaded within ${timeoutMs / 1_000} s.`),
    timeoutMs,
  );
  try {
    const fault = await Promise.race([line.check(), late.promise]);
    if (fault !== null) return { word: 'package', line: fault, isUnsure: false };
    return {
      word: 'package',
      line: 'The package is there and can be used. Whether its credential is good is seen by calling.',
      isUnsure: true,
    };
  } finally {
    clearTimeout(timer);
  }
}

const bad = (word: string, line: string): Problem => ({ word, line, isUnsure: false });

/** What went wrong, by the codes of the network, TLS and HTTP. */
export function explain(error: unknown, timeoutMs: number): Problem {
  if (error instanceof ForbiddenAddress) return bad('address_refused', error.message);
  if (error instanceof SyntaxError)
    return bad(
      'unreadable',
      'Its answer is not JSON: what is at this address may be no API. Is the path right, such as /v1 at its end?',
    );
  const { name = '', message = '', code: ownCode, cause } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  const code = ownCode ?? (cause as NodeJS.ErrnoException | undefined)?.code ?? '';
  const status = /^the upstream answered (\d{3})$/.exec(message)?.[1];
  if (status !== undefined) return explainStatus(Number(status));
  if (name === 'TimeoutError' || /TIMEOUT|ETIMEDOUT/.test(code))
    return bad('timed_out', `It did not answer within ${timeoutMs / 1_000} s.`);
  if (code === 'ECONNREFUSED') return bad('unreachable', 'Nothing listens at its address.');
  if (code === 'ENOTFOUND') return bad('unreachable', 'There is no host of its name.');
  if (code === 'EAI_AGAIN') return bad('unreachable', 'Its name could not be looked up just now.');
  if (/^E(HOST|NET)(UNREACH|DOWN)$/.test(code))
    return bad('unreachable', 'No way leads to its address from here.');
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH|EPROTO/.test(code))
    return bad(
      'unreachable',
      'It speaks no TLS at this address: does it begin with http:// rather than https://?',
    );
  if (/^(CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/.test(code))
    return bad(
      'unreachable',
      `Its certificate is not to be trusted (${code.toLowerCase().replaceAll('_', ' ')}).`,
    );
  if (code.startsWith('HPE_'))
    return bad('unreadable', 'What answers at its address speaks no HTTP, or TLS alone.');
  if (/ECONNRESET|EPIPE|UND_ERR_SOCKET/.test(code)) return bad('cut', 'It broke the connection off.');
  if (message === 'its list of models is none')
    return bad(
      'unreadable',
      'Its answer is no list of models: what is at this address may be another API. Is the path right, such as /v1 at its end?',
    );
  if (message === 'the reply is too large') return bad('unreadable', 'Its list of models is too large.');
  return bad('unreachable', `It could not be asked${code === '' ? '' : ` (${code})`}.`);
}

function explainStatus(status: number): Problem {
  const word = `status_${status}`;
  if (status === 401) return bad(word, 'It refuses the credential (401).');
  if (status === 403)
    return {
      word,
      line: 'It does not show its models with this credential (403). One that is restricted may be good for calls all the same: that is seen by calling.',
      isUnsure: true,
    };
  if (status === 404 || status === 405 || status === 501)
    return {
      word,
      line: `It answers, but has no list of models at this address (${status}). If the address is right, whether calls pass is seen by calling.`,
      isUnsure: true,
    };
  if (status === 429) return bad(word, 'It answers, and says that this credential is over its limit (429).');
  if (status < 400)
    return bad(
      word,
      `It sends elsewhere (${status}), and redirects are never followed: give the address that it sends to.`,
    );
  return bad(
    word,
    status >= 500 ? `It answers that it fails (${status}).` : `It refuses to be asked (${status}).`,
  );
}
