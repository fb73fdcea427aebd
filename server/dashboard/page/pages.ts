import type { Request, RequestHandler, Response } from 'express';
import { replyOf } from '#server/http/respond.ts';
import { type BuiltPage, type PageFile, readPageFiles } from '#server/dashboard/page/files.ts';
import { hintsFor } from '#server/dashboard/page/hints.ts';

/** What no page is under. */
const NO_PAGE = /^\/(v1|api|log|healthz|readyz)(\/|$)/;
/** Files alone: no path below is a view of the page. */
const NO_VIEW = /^\/(assets\/|docs(\/|$))/;
/** Links between the pages of the documentation are relative, so its first page has its full address. */
const DOCS_ROOT = /^\/docs\/?$/;
const DOCS_START = '/docs/index.html';
const FOREVER = 'public, max-age=31536000, immutable';
const NOT_BUILT = 'The dashboard isn\'t built. Run "npm run build" on this server and reload the page.\n';

/**
 * Serves the built page: its files by their paths, and the page itself for every other path that a browser
 * opens; the page's router chooses the view. Other requests, and files that don't exist, are passed on.
 * @param headers added to each reply.
 */
export function pages(directory: string, headers: RequestHandler): RequestHandler {
  let read: Promise<BuiltPage | null> | null = null;
  /** Read once. A page that is not there may be built at any time. */
  async function files(): Promise<BuiltPage | null> {
    read ??= readPageFiles(directory);
    const reading = read;
    const found = await reading.catch(() => null);
    if (found === null && read === reading) read = null;
    return found;
  }
  return async (request, response, next) => {
    const { method, path } = request;
    if ((method !== 'GET' && method !== 'HEAD') || NO_PAGE.test(path)) return next();
    const isPage = !NO_VIEW.test(path) && wantsPage(request);
    const found = await files();
    const page = isPage ? found?.files.get('/index.html') : undefined;
    if (DOCS_ROOT.test(path)) return response.redirect(302, DOCS_START);
    const file = found?.files.get(path) ?? page;
    if (file === undefined && !(isPage && found === null)) return next();
    await new Promise<void>(
      (resolve, reject) =>
        void headers(request, response, (error?: unknown) => (error ? reject(error) : resolve())),
    );
    if (file === undefined) sendNotBuilt(response);
    else await send(request, response, file, file === page ? hintsFor(found?.list ?? {}, path) : null);
  };
}

/** Browsers say so; programs that ask for whatever there is don't. */
function wantsPage({ headers }: Request): boolean {
  return /\btext\/html\b/i.test(headers.accept ?? '');
}

async function send(
  request: Request,
  response: Response,
  file: PageFile,
  hints: string | null,
): Promise<void> {
  const { encoding, bytes, etag } = await file.body(request.headers['accept-encoding'] ?? '');
  const isKnown = (request.headers['if-none-match'] ?? '')
    .split(',')
    .some((each) => each.trim().replace(/^W\//, '') === etag);
  response.writeHead(isKnown ? 304 : 200, [
    ...(isKnown ? [] : ['content-type', file.type, 'content-length', String(bytes.length)]),
    ...(encoding === null || isKnown ? [] : ['content-encoding', encoding]),
    ...(hints === null ? [] : ['link', hints]),
    'cache-control',
    file.isLasting ? FOREVER : 'no-cache',
    'etag',
    etag,
    'vary',
    'accept-encoding',
    'x-request-id',
    replyOf(response).requestId,
  ]);
  response.end(isKnown || request.method === 'HEAD' ? undefined : bytes);
}

function sendNotBuilt(response: Response): void {
  response.writeHead(503, [
    'content-type',
    'text/plain; charset=utf-8',
    'content-length',
    String(Buffer.byteLength(NOT_BUILT)),
    'cache-control',
    'no-store',
    'x-request-id',
    replyOf(response).requestId,
  ]);
  response.end(NOT_BUILT);
}
