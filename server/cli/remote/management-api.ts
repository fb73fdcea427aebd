import { StoreUnavailable } from '#db/postgres/connect.ts';
import type { Login } from '#server/cli/remote/login-file.ts';
import type { Change } from '#server/contract/keys.ts';
import type { AccountList, AccountRow } from '#server/contract/accounts.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The management API of a server, for commands. */

const TIMEOUT_MS = 60_000;
/** Of a list: 100,000 rows, more than a terminal shows. */
const PAGES_MAX = 100;
const FORBIDDEN = 403;
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost']);

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
type Query = Readonly<Record<string, string | number | undefined>>;
type Page<Row> = { data: Row[]; next?: string | null };
type Failure = { error?: { code: string | null; message: string } };

/** A reply with an error that is the caller's to mend. */
class RejectedByServer extends DecisionError {
  readonly status: number;
  constructor(status: number, message: string) {
    super(codeOf(status), message);
    this.status = status;
  }
}

/** The origin of a server. @throws {DecisionError} for an address over which the key would be readable. */
export function checkServer(server: string): string {
  const url = URL.parse(server);
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw new DecisionError('invalid', 'The server must be an address such as https://daybook.example.com.');
  if (url.protocol === 'http:' && !LOOPBACK.has(url.hostname))
    throw new DecisionError('invalid', 'The management key is sent over HTTPS only. Use https://…');
  return url.origin;
}

export class ManagementApi {
  readonly server: string;
  readonly #key: string;

  /** @throws {DecisionError} for an address over which the key would be readable. */
  constructor({ server, key }: Login) {
    this.server = checkServer(server);
    this.#key = key;
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    const given = Object.entries(query).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    );
    const text = new URLSearchParams(given).toString();
    return this.#send('GET', text === '' ? path : `${path}?${text}`);
  }

  /** All rows of a list, page by page. */
  async list<Row>(path: string, query: Query = {}): Promise<Row[]> {
    const rows: Row[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < PAGES_MAX; page++) {
      const { data, next } = await this.get<Page<Row>>(path, { ...query, cursor });
      rows.push(...data);
      if (next === undefined || next === null) return rows;
      cursor = next;
    }
    throw new DecisionError('not_allowed', `${path} has more than ${rows.length} rows. Narrow the list.`);
  }

  post<T = Change>(path: string, body?: object): Promise<T> {
    return this.#send('POST', path, body);
  }
  put<T = Change>(path: string, body: object): Promise<T> {
    return this.#send('PUT', path, body);
  }
  patch<T = Change>(path: string, body: object): Promise<T> {
    return this.#send('PATCH', path, body);
  }
  delete<T = Change>(path: string): Promise<T> {
    return this.#send('DELETE', path);
  }

  /** @throws {DecisionError} unless the server knows the key, whatever its scopes are. */
  async checkKey(): Promise<void> {
    try {
      await this.get('keys', { limit: 1 });
    } catch (error) {
      if (!(error instanceof RejectedByServer) || error.status !== FORBIDDEN) throw error;
    }
  }

  /** @throws {DecisionError} `not_found` if no account has the name. */
  async account(name: string): Promise<AccountRow> {
    let cursor: string | undefined;
    do {
      const page: AccountList = await this.get('accounts', { search: name, cursor });
      const found = page.data.find((each) => each.name === name);
      if (found) return found;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    throw new DecisionError('not_found', `There is no account "${name}".`);
  }

  async #send<T>(method: Method, path: string, body?: object): Promise<T> {
    let reply: Response;
    let text: string;
    try {
      reply = await fetch(`${this.server}/api/v1/${path}`, {
        method,
        headers: {
          authorization: `Bearer ${this.#key}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        // A redirect could lead the key elsewhere.
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      text = await reply.text();
    } catch {
      throw new StoreUnavailable(
        method === 'GET'
          ? `${this.server} can't be reached.`
          : `${this.server} can't be reached. The change may have been made; check before you repeat it.`,
      );
    }
    const parsed = parse(text) as (T & Failure) | null;
    if (reply.ok && parsed !== null) return parsed;
    if (reply.status >= 500 || !parsed?.error)
      throw new StoreUnavailable(
        `${this.server} replied ${reply.status}${parsed?.error ? `: ${parsed.error.message}` : ''}`,
      );
    throw new RejectedByServer(reply.status, parsed.error.message);
  }
}

function codeOf(status: number): DecisionError['code'] {
  switch (status) {
    case 400:
    case 413:
    case 422:
      return 'invalid';
    case 404:
      return 'not_found';
    case 412:
      return 'precondition_failed';
    default:
      return 'not_allowed';
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
