import { StoreError } from '#db/postgres/connect.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';
import { fromBase64 } from '#db/tlog/note.ts';
import { PROOF_HASHES_MAX } from '#db/tlog/proof.ts';
import { LOG_TIMEOUT_MS, RESPONSE_BYTES_MAX } from '#db/audit/bounds.ts';

/** A log's HTTP interface, as an independent witness uses it. Nothing in a response is trusted. */

/** The log can't be reached, or its response is unusable. The witness retries and draws no conclusion. */
export class LogUnavailableError extends StoreError {
  override name = 'LogAwayError';
}

/** The newest checkpoint that a log serves, and the age of the oldest event that it does not cover. */
export type ServedCheckpoint = { note: string; waitingMs: number };

type LogResponse = { status: number; text: string; headers: Headers };

export class LogClient {
  readonly address: string;

  /**
   * @param address of the log's server, such as `https://daybook.example.com`.
   * @throws {StoreError} when it is not an HTTP address.
   */
  constructor(address: string) {
    const url = URL.parse(address);
    if (
      url === null ||
      !['http:', 'https:'].includes(url.protocol) ||
      url.username !== '' ||
      url.search !== '' ||
      url.hash !== ''
    ) {
      throw new StoreError('--log must be the address of a server, such as https://daybook.example.com');
    }
    this.address = url.href.replace(/\/+$/, '');
  }

  /** Fetches the newest checkpoint. @throws {LogUnavailableError} when the log serves none. */
  async newestCheckpoint(): Promise<ServedCheckpoint> {
    const { status, text, headers } = await this.#request('/log/checkpoint');
    if (status !== 200)
      throw new LogUnavailableError(
        `${this.address} serves no checkpoint: HTTP ${status} ${codeIn(text)}`.trimEnd(),
      );
    return { note: text, waitingMs: Number(headers.get('x-waiting-ms') ?? 0) };
  }

  /**
   * Fetches the consistency proof between two sizes.
   * @returns null when the log answers that it has no such proof.
   * @throws {LogUnavailableError} when the response is not a proof.
   */
  async consistencyProof(from: number, to: number): Promise<Buffer[] | null> {
    if (from === 0 || from === to) return [];
    const { status, text } = await this.#request(`/log/consistency?from=${from}&to=${to}`);
    if (status === 400) return null;
    const hashes = text.split('\n').slice(0, -1).map(fromBase64);
    if (
      status !== 200 ||
      hashes.length > PROOF_HASHES_MAX ||
      !hashes.every((hash) => hash?.length === HASH_BYTES)
    ) {
      throw new LogUnavailableError(
        (
          `${this.address} serves no consistency proof from ${from} to ${to}: HTTP ` +
          `${status} ${codeIn(text)}`
        ).trimEnd(),
      );
    }
    return hashes as Buffer[];
  }

  /** Submits a cosigned checkpoint. @throws {LogUnavailableError} when the log does not accept it. */
  async submitCosignature(cosigned: string): Promise<void> {
    const { status, text } = await this.#request('/log/cosignatures', cosigned);
    if (status !== 200)
      throw new LogUnavailableError(
        `${this.address} did not accept the cosignature: HTTP ${status} ${codeIn(text)}. Is this ` +
          `witness's key in its WITNESSES?`,
      );
  }

  async #request(path: string, body?: string): Promise<LogResponse> {
    try {
      const response = await fetch(this.address + path, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          'cache-control': 'no-cache',
          ...(body === undefined ? {} : { 'content-type': 'text/plain; charset=utf-8' }),
        },
        signal: AbortSignal.timeout(LOG_TIMEOUT_MS),
        ...(body === undefined ? {} : { body }),
      });
      return { status: response.status, text: await readText(response), headers: response.headers };
    } catch (error) {
      if (error instanceof LogUnavailableError) throw error;
      const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
      throw new LogUnavailableError(`${this.address} can't be reached (${code ?? message})`, {
        cause: error,
      });
    }
  }
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.length;
    if (bytes > RESPONSE_BYTES_MAX)
      throw new LogUnavailableError(`${new URL(response.url).host} sent a response that is too large`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** The error code of a response by Daybook; text from any other source is not shown. */
function codeIn(text: string): string {
  return /^\{"error":\{[^{}]*"code":"([a-z_]{1,40})"/.exec(text)?.[1] ?? '';
}
