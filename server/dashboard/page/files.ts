import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { contentEncodings } from '#server/http/content-encodings.ts';
import type { BuildList } from '#server/dashboard/page/hints.ts';

/** A file of the built page, in memory. */
export type PageFile = {
  type: string;
  /** Named by its content, so that it never changes. */
  isLasting: boolean;
  /** As it goes out to a browser that takes these encodings. Compressed when it is first asked for. */
  body(acceptEncoding: string): Promise<Body>;
};

type Body = { encoding: 'br' | 'gzip' | null; bytes: Buffer; etag: string };

/** What a browser asks for, by its path from the root. */
export type PageFiles = ReadonlyMap<string, PageFile>;

/** The built page, and the build's list of what became of each source; empty where it wrote none. */
export type BuiltPage = { files: PageFiles; list: BuildList };

/** Static files that aren't part of the page. */
const BUILD_LIST = '/build.json';

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};
const PACKED = new Set(['.ico', '.png', '.woff2']);

const packBrotli = promisify(brotliCompress);
const packGzip = promisify(gzip);

/** Reads the built page. @returns null if it isn't built. @throws if it can't be read. */
export async function readPageFiles(directory: string): Promise<BuiltPage | null> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
  const own = files.filter((file) => placeOf(directory, file) !== BUILD_LIST);
  const found = new Map(
    await Promise.all(
      own.map(
        async (file) => [placeOf(directory, file), fileOf(file, directory, await readFile(file))] as const,
      ),
    ),
  );
  const list =
    files.length === own.length
      ? {}
      : (JSON.parse(await readFile(path.join(directory, BUILD_LIST), 'utf8')) as BuildList);
  return found.has('/index.html') ? { files: found, list } : null;
}

const placeOf = (directory: string, file: string): string =>
  `/${path.relative(directory, file).replaceAll(path.sep, '/')}`;

function fileOf(file: string, directory: string, bytes: Buffer): PageFile {
  const ending = path.extname(file);
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
  const packed = new Map<'br' | 'gzip', Promise<Buffer>>();
  const pack = (encoding: 'br' | 'gzip'): Promise<Buffer> => {
    const made = packed.get(encoding) ?? packAs(encoding, bytes);
    packed.set(encoding, made);
    return made;
  };
  return {
    type: TYPES[ending] ?? 'application/octet-stream',
    isLasting: placeOf(directory, file).startsWith('/assets/'),
    async body(acceptEncoding) {
      const encoding = PACKED.has(ending) ? null : encodingFor(acceptEncoding);
      if (encoding === null) return { encoding, bytes, etag: `"${digest}"` };
      return { encoding, bytes: await pack(encoding), etag: `"${digest}-${encoding}"` };
    },
  };
}

function packAs(encoding: 'br' | 'gzip', bytes: Buffer): Promise<Buffer> {
  if (encoding === 'gzip') return packGzip(bytes, { level: constants.Z_BEST_COMPRESSION });
  return packBrotli(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });
}

/** The smaller of those that a browser takes. */
function encodingFor(acceptEncoding: string): 'br' | 'gzip' | null {
  const taken = contentEncodings(acceptEncoding);
  if (taken.has('br')) return 'br';
  return taken.has('gzip') ? 'gzip' : null;
}
