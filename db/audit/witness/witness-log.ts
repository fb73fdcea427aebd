import { StoreError } from '#db/postgres/connect.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';
import { fromBase64 } from '#db/tlog/note.ts';
import { PROOF_HASHES_MAX } from '#db/tlog/proof.ts';

/** A log, as a witness elsewhere reaches it: by HTTP, trusting nothing of what it says. */

/** The longest reply is a proof, of a few kilobytes. */
const REPLY_BYTES_MAX = 256 * 1024;
/** A server that answers at all answers within this; the next look is soon. */
const TIMEOUT_MS = 10_000;

/**
 * The log can't be asked, or says nothing that helps: it is asked again, and nothing is concluded from it.
 */
export class LogAwayError extends StoreError {
  override name = 'LogAwayError';
}

/** What a log showed: its newest note, and for how long an event has been there that no checkpoint covers. */
export type Shown = { note: string; waitingMs: number };

type Reply = { status: number; text: string; headers: Headers };

export class WitnessedLog {
  readonly address: string;

  /**
   * @param address of the log's server, such as `https://daybook.example.com`. @throws {StoreError} when it
   * is none.
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

  /** @throws {LogAwayError} when there is none to be had. */
  async newest(): Promise<Shown> {
    const { status, text, headers } = await this.#ask('/log/checkpoint');
    if (status !== 200)
      throw new LogAwayError(
        `${this.address} shows no checkpoint: it answers ${status} ${codeIn(text)}`.trimEnd(),
      );
    return { note: text, waitingMs: Number(headers.get('x-waiting-ms') ?? 0) };
  }

  /**
   * The proof between two sizes.
   * @returns null where the log says that it has none of that length.
   * @throws {LogAwayError} when it sends nothing that could be one.
   */
  async consistency(from: number, to: number): Promise<Buffer[] | null> {
    if (from === 0 || from === to) return [];
    const { status, text } = await this.#ask(`/log/consistency?from=${from}&to=${to}`);
    if (status === 400) return null;
    const hashes = text.split('\n').slice(0, -1).map(fromBase64);
    if (
      status !== 200 ||
      hashes.length > PROOF_HASHES_MAX ||
      !hashes.every((hash) => hash?.length === HASH_BYTES)
    ) {
      throw new LogAwayError(
        `${this.address} sends no proof from ${from} to ${to}: it answers ${status} ${codeIn(text)}`.trimEnd(),
      );
    }
    return hashes as Buffer[];
  }

  /** Hands in a checkpoint with this witness's signature. @throws {LogAwayError} when it was not taken. */
  async handIn(cosigned: string): Promise<void> {
    const { status, text } = await this.#ask('/log/cosignatures', cosigned);
    if (status !== 200)
      throw new LogAwayError(
        `${this.address} did not take the cosignature: it answers ${status} ${codeIn(text)}; is this witness's key in its WITNESSES?`,
      );
  }

  async #ask(path: string, body?: string): Promise<Reply> {
    try {
      const reply = await fetch(this.address + path, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          'cache-control': 'no-cache',
          ...(body === undefined ? {} : { 'content-type': 'text/plain; charset=utf-8' }),
        },
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...(body === undefined ? {} : { body }),
      });
      return { status: reply.status, text: await readText(reply), headers: reply.headers };
    } catch (error) {
      if (error instanceof LogAwayError) throw error;
      const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
      throw new LogAwayError(`${this.address} can't be reached (${code ?? message})`, { cause: error });
    }
  }
}

async function readText(reply: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of reply.body ?? []) {
    bytes += part.length;
    if (bytes > REPLY_BYTES_MAX)
      throw new LogAwayError(`${new URL(reply.url).host} sends more than any proof is`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** The code of an error of ours; nothing of what anybody else wrote. */
function codeIn(text: string): string {
  return /^\{"error":\{[^{}]*"code":"([a-z_]{1,40})"/.exec(text)?.[1] ?? '';
}
